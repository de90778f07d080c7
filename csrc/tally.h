/* tally.h: exact count, mean, deviation and extremes of durations, and their distribution to within 0.4 %, in constant memory. */
#ifndef FW_TALLY_H
#define FW_TALLY_H

#include <stdint.h>

/* A power of two of durations shares 128 buckets, so half a bucket is 1/256 of its value. Durations below 128 ns have their own. */
enum { FW_TALLY_BITS = 7, FW_TALLY_BUCKETS = (64 - FW_TALLY_BITS) << FW_TALLY_BITS };

typedef struct fw_tally {
  uint64_t n;
  int64_t min_ns, max_ns;       /* meaningful when n > 0 */
  long double mean_ns, squares; /* squares: sum of squared deviations from the mean, ns^2 */
  uint64_t buckets[FW_TALLY_BUCKETS];
} fw_tally;

void fw_tally_add(fw_tally *tally, int64_t value_ns, uint64_t count);

/* The bucket of a duration, and the duration in the middle of a bucket. */
int fw_tally_bucket(int64_t value_ns);
int64_t fw_tally_middle(int bucket);

#endif
