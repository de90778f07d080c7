/* fuzz_deadlines: bytes become operations on deadlines and a sorted list, which must agree.

   clang -fsanitize=fuzzer links it with libFuzzer's main; elsewhere fuzz_main.c feeds it random bytes. */
#include "check.h"
#include "twin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 8 }; /* ids of one push at most */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  twin pair;
  twin_open(&pair, data[0] & 1);
  uint64_t turned = pair.rising ? 0 : (uint64_t)data[1] * BLOCK; /* over a block's number: any order, no id twice */
  uint64_t id = 0;
  int64_t now = 0;
  for (size_t i = 2; i + 2 < size && check_failures() == 0; i += 3) {
    uint8_t operation = data[i], a = data[i + 1], b = data[i + 2];
    switch (operation & 3) {
    case 0: /* any delay, of any size */
    case 1: /* equal delays */
      pair.refuse = (operation & 0x84) == 0x84;
      twin_push(&pair, id ^ turned, 1 + a % BLOCK, now + (operation & 1 ? 40 : (int64_t)b << (operation >> 3 & 7)));
      id += pair.rising ? 1 + a % BLOCK : BLOCK;
      break;
    case 2:
      now += (int64_t)b << (operation >> 2 & 7);
      twin_pop_due(&pair, now);
      break;
    default:
      if (operation & 4 && pair.size > 0 && pair.entries[0].deadline_ns > now)
        now = pair.entries[0].deadline_ns;
      twin_pop(&pair, now);
    }
    twin_check(&pair, a);
  }
  twin_pop_due(&pair, FW_NEVER);
  twin_close(&pair);
  if (check_failures() > 0)
    abort();
  return 0;
}
