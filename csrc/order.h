/* order.h: sorts durations and sums them up exactly; what percentiles are read from. */
#ifndef FW_ORDER_H
#define FW_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Ascending, in place; `scratch` has room for as many. */
void fw_sort_ns(int64_t *values, int64_t *scratch, size_t count);

/* Mean, and standard deviation with n - 1 in the denominator; count >= 1, the latter only for count >= 2. */
double fw_mean_ns(const int64_t *values, size_t count);
double fw_deviation_ns(const int64_t *values, size_t count, double mean_ns);

#endif
