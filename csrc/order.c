/* order: a least-significant-digit radix sort, which skips the bytes that all values share. */
#include "order.h"

#include <math.h>
#include <string.h>

enum { SMALL = 64, DIGITS = 256 };

static void insert(int64_t *values, size_t count) {
  for (size_t i = 1; i < count; i++) {
    int64_t value = values[i];
    size_t hole = i;
    for (; hole > 0 && values[hole - 1] > value; hole--)
      values[hole] = values[hole - 1];
    values[hole] = value;
  }
}

/* With the sign bit turned over, signed numbers are ordered as unsigned ones. */
static unsigned digit(int64_t value, int shift) {
  return (unsigned)((((uint64_t)value ^ UINT64_C(1) << 63) >> shift) & (DIGITS - 1));
}

void fw_sort_ns(int64_t *values, int64_t *scratch, size_t count) {
  if (count < SMALL) {
    insert(values, count);
    return;
  }
  int64_t *from = values, *to = scratch;
  for (int shift = 0; shift < 64; shift += 8) {
    size_t place[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
      place[digit(from[i], shift)]++;
    if (place[digit(from[0], shift)] == count)
      continue;
    for (int d = 0; d < DIGITS; d++) {
      size_t here = place[d];
      place[d] = sum;
      sum += here;
    }
    for (size_t i = 0; i < count; i++)
      to[place[digit(from[i], shift)]++] = from[i];
    int64_t *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != values)
    memcpy(values, from, count * sizeof *values);
}

double fw_mean_ns(const int64_t *values, size_t count) {
  long double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (long double)values[i];
  return (double)(sum / (long double)count);
}

double fw_deviation_ns(const int64_t *values, size_t count, double mean_ns) {
  long double squares = 0;
  for (size_t i = 0; i < count; i++) {
    long double gap = (long double)values[i] - mean_ns;
    squares += gap * gap;
  }
  return (double)sqrtl(squares / (long double)(count - 1));
}
