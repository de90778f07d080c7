/* test_tally: buckets cover every duration without gaps and within 0.4 %; mean and deviation agree with a naive sum. */
#include "check.h"
#include "tally.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static fw_tally *tally;
static int is_short;

static void clear(void) {
  free(tally);
  tally = calloc(1, sizeof *tally);
}

static void check_bucket(int64_t value) {
  int bucket = fw_tally_bucket(value);
  CHECK(bucket >= 0 && bucket < FW_TALLY_BUCKETS);
  int64_t middle = fw_tally_middle(bucket);
  CHECK_EQUAL(fw_tally_bucket(middle), bucket);
  CHECK_NEAR(middle, value, 0.004L * (long double)value);
}

static void buckets_are_near_their_values(void) {
  for (int64_t value = 0; value < 256; value++)
    CHECK_EQUAL(fw_tally_middle(fw_tally_bucket(value)), value);
  for (int64_t value = 0; value < 100000; value++)
    check_bucket(value);
  for (int bit = 1; bit < 63; bit++) { /* around each power of two, where the width of a bucket changes */
    int64_t power = INT64_C(1) << bit;
    for (int64_t near = -2; near <= 2; near++)
      check_bucket(power + near < 0 ? 0 : power + near);
  }
  random_source random = {7};
  for (int i = 0; i < 100000; i++)
    check_bucket((int64_t)(random_bits(&random) >> 1 >> random_below(&random, 63)));
  check_bucket(INT64_MAX);
  CHECK_EQUAL(fw_tally_bucket(INT64_MAX), FW_TALLY_BUCKETS - 1);
  CHECK_EQUAL(fw_tally_bucket(-5), 0); /* no clock of ours goes back, but an index below 0 would be worse */
}

/* One bucket starts where the one before it ends, and a longer duration is never in an earlier one. */
static void buckets_rise_without_gaps(void) {
  int64_t before = -1;
  for (int bucket = 0; bucket < FW_TALLY_BUCKETS; bucket++) {
    int64_t middle = fw_tally_middle(bucket);
    CHECK(middle > before);
    if (bucket > 0)
      CHECK_AT_MOST(fw_tally_bucket(before + (middle - before) / 2) - bucket, 0);
    before = middle;
  }
  int last = 0;
  for (int64_t value = 0; value < 1000000; value++) {
    int bucket = fw_tally_bucket(value);
    CHECK(bucket == last || bucket == last + 1);
    last = bucket;
  }
}

/* A naive two-pass sum over the same values, each as often as it was added. */
static void check_moments(const int64_t *values, const uint64_t *counts, int size) {
  long double n = 0, sum = 0, squares = 0;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (int i = 0; i < size; i++) {
    n += (long double)counts[i];
    sum += (long double)counts[i] * (long double)values[i];
    if (counts[i] > 0 && values[i] < least)
      least = values[i];
    if (counts[i] > 0 && values[i] > most)
      most = values[i];
  }
  long double mean = sum / n;
  for (int i = 0; i < size; i++)
    squares += (long double)counts[i] * ((long double)values[i] - mean) * ((long double)values[i] - mean);
  CHECK_EQUAL(tally->n, (uint64_t)n);
  CHECK_EQUAL(tally->min_ns, least);
  CHECK_EQUAL(tally->max_ns, most);
  CHECK_NEAR(tally->mean_ns, mean, 1e-14L * mean);
  CHECK_NEAR(tally->squares, squares, 1e-12L * squares + 1e-6L);
  uint64_t all = 0;
  for (int i = 0; i < FW_TALLY_BUCKETS; i++)
    all += tally->buckets[i];
  CHECK_EQUAL(all, tally->n);
}

static void merged_equal_values_agree_with_a_naive_sum(void) {
  enum { SIZE = 2000 };
  static int64_t values[SIZE];
  static uint64_t counts[SIZE];
  random_source random = {3};
  for (int round = 0; round < 40; round++) {
    clear();
    for (int i = 0; i < SIZE; i++) {
      values[i] = (int64_t)(random_bits(&random) >> (8 + random_below(&random, 40)));
      counts[i] = random_below(&random, round % 2 ? 2 : 100000); /* 0 adds nothing */
      fw_tally_add(tally, values[i], counts[i]);
    }
    check_moments(values, counts, SIZE);
  }
}

/* Where mean^2 is much larger than the variance, a sum of squares would have lost every digit. Needs the 64 bits of x86's long
   double, which valgrind does not have either. */
static void small_deviations_of_large_values_survive(void) {
  if (is_short || LDBL_MANT_DIG < 64)
    return;
  static const int64_t values[] = {INT64_C(3000000000000000000), INT64_C(3000000000000000001), INT64_C(3000000000000000002)};
  static const uint64_t counts[] = {1000000, 1000000, 1000000};
  clear();
  for (int i = 0; i < 3; i++)
    fw_tally_add(tally, values[i], counts[i]);
  CHECK_NEAR(tally->mean_ns, 3e18L + 1, 0.5);
  CHECK_NEAR(sqrtl(tally->squares / 3e6L), sqrtl(2.0L / 3), 0.3);
  CHECK_EQUAL(tally->n, 3000000);
}

static void one_at_a_time_or_merged_is_the_same(void) {
  fw_tally *single = calloc(1, sizeof *single);
  clear();
  for (int64_t value = 100; value < 200; value++) {
    fw_tally_add(tally, value, 50);
    for (int i = 0; i < 50; i++)
      fw_tally_add(single, value, 1);
  }
  CHECK_EQUAL(single->n, tally->n);
  CHECK_NEAR(single->mean_ns, tally->mean_ns, 1e-12);
  CHECK_NEAR(single->squares, tally->squares, 1e-6);
  for (int i = 0; i < FW_TALLY_BUCKETS; i++)
    CHECK_EQUAL(single->buckets[i], tally->buckets[i]);
  free(single);
}

static void nothing_and_zero(void) {
  clear();
  fw_tally_add(tally, 99, 0);
  CHECK_EQUAL(tally->n, 0);
  fw_tally_add(tally, 0, 3);
  CHECK_EQUAL(tally->n, 3);
  CHECK_EQUAL(tally->max_ns, 0);
  CHECK_NEAR(tally->mean_ns, 0, 0);
  CHECK_NEAR(tally->squares, 0, 0);
}

int main(int argc, char **argv) {
  is_short = check_short(argc, argv);
  TEST(buckets_are_near_their_values);
  TEST(buckets_rise_without_gaps);
  TEST(merged_equal_values_agree_with_a_naive_sum);
  TEST(small_deviations_of_large_values_survive);
  TEST(one_at_a_time_or_merged_is_the_same);
  TEST(nothing_and_zero);
  free(tally);
  return check_report();
}
