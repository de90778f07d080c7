/* fuzz_main: stands in for libFuzzer where there is none: `program COUNT SEED` feeds the target that many random inputs. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 3000 };

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 1000;
  random_source random = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
  for (long input = 0; input < count; input++) {
    /* From the heap and of the exact size, so that a sanitizer sees a read past its end. */
    size_t size = random_below(&random, 1 + random_below(&random, LONGEST));
    uint8_t *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
      data[i] = (uint8_t)random_bits(&random);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
  }
  printf("%ld inputs\n", count);
  return 0;
}
