/* test_order: the radix sort against the library's sort, mean and deviation against known numbers. */
#include "check.h"
#include "order.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5000 };

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void check_sort(const int64_t *values, size_t count) {
  static int64_t sorted[MOST], expected[MOST], scratch[MOST];
  memcpy(sorted, values, count * sizeof *values);
  memcpy(expected, values, count * sizeof *values);
  qsort(expected, count, sizeof *expected, compare);
  fw_sort_ns(sorted, scratch, count);
  CHECK_EQUAL(memcmp(sorted, expected, count * sizeof *sorted), 0);
}

static void every_size_and_width(void) {
  static int64_t values[MOST];
  random_source random = {11};
  static const size_t sizes[] = {1, 2, 3, 10, 62, 63, 64, 65, 66, 100, 255, 256, 257, 1000, MOST};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int width = 0; width <= 64; width += 4) {
      for (size_t i = 0; i < sizes[s]; i++)
        values[i] = (int64_t)(width == 0 ? 42 : random_bits(&random) >> (64 - width)); /* width 64: negatives too */
      check_sort(values, sizes[s]);
    }
  check_sort(values, 0);
}

/* Bytes that all values share are skipped: here only some of the eight differ. */
static void shared_bytes(void) {
  static int64_t values[MOST];
  random_source random = {12};
  for (int mask = 0; mask < 256; mask++) {
    uint64_t bits = 0;
    for (int byte = 0; byte < 8; byte++)
      if (mask >> byte & 1)
        bits |= UINT64_C(0xff) << (8 * byte);
    for (size_t i = 0; i < 300; i++)
      values[i] = (int64_t)((random_bits(&random) & bits) | (UINT64_C(0x1122334455667788) & ~bits));
    check_sort(values, 300);
  }
}

static void extremes(void) {
  static int64_t values[200];
  for (size_t i = 0; i < 200; i++)
    values[i] = i % 4 == 0 ? INT64_MAX : i % 4 == 1 ? INT64_MIN : i % 4 == 2 ? -1 : 0;
  check_sort(values, 200);
  check_sort(values, 20);
}

static void moments(void) {
  static const int64_t values[] = {2, 4, 4, 4, 5, 5, 7, 9};
  CHECK_NEAR(fw_mean_ns(values, 8), 5, 0);
  CHECK_NEAR(fw_deviation_ns(values, 8, 5), sqrt(32.0 / 7), 1e-15);
  static const int64_t large[] = {INT64_C(3000000000000000000), INT64_C(3000000000000000512), INT64_C(3000000000000001024)};
  CHECK_NEAR(fw_mean_ns(large, 3), 3000000000000000512.0L, 256);
  CHECK_NEAR(fw_deviation_ns(large, 3, fw_mean_ns(large, 3)), 512, 1e-9);
  CHECK_NEAR(fw_mean_ns(values, 1), 2, 0);
}

int main(void) {
  TEST(every_size_and_width);
  TEST(shared_bytes);
  TEST(extremes);
  TEST(moments);
  return check_report();
}
