/* tally: a running mean and a histogram whose buckets widen with the value. */
#include "tally.h"

int fw_tally_bucket(int64_t value_ns) {
  uint64_t value = value_ns < 0 ? 0 : (uint64_t)value_ns;
  if (value < (1u << FW_TALLY_BITS))
    return (int)value;
  int shift = 63 - __builtin_clzll(value) - FW_TALLY_BITS;
  return (shift << FW_TALLY_BITS) + (int)(value >> shift);
}

int64_t fw_tally_middle(int bucket) {
  if (bucket < 2 << FW_TALLY_BITS)
    return bucket;
  int shift = (bucket >> FW_TALLY_BITS) - 1;
  uint64_t lowest = (uint64_t)((bucket & ((1 << FW_TALLY_BITS) - 1)) | 1 << FW_TALLY_BITS) << shift;
  return (int64_t)(lowest + ((1ull << shift) >> 1));
}

/* Merging `count` equal values into a running mean: Chan, Golub and LeVeque (1983), with no deviation within the part. */
void fw_tally_add(fw_tally *tally, int64_t value_ns, uint64_t count) {
  if (count == 0)
    return;
  if (tally->n == 0 || value_ns < tally->min_ns)
    tally->min_ns = value_ns;
  if (tally->n == 0 || value_ns > tally->max_ns)
    tally->max_ns = value_ns;
  long double before = (long double)tally->n, more = (long double)count, both = before + more;
  long double gap = (long double)value_ns - tally->mean_ns;
  tally->mean_ns += gap * more / both;
  tally->squares += gap * gap * before * more / both;
  tally->n += count;
  tally->buckets[fw_tally_bucket(value_ns)] += count;
}
