/* distribution: counter-based draws; every kind turns one uniform number into one duration by its quantile function. */
#include "distribution.h"

#include <math.h>

/* The output function of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose images of a counter pass BigCrush. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t bits(uint64_t seed, uint64_t index) {
  return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + index * UINT64_C(0x9e3779b97f4a7c15));
}

/* 52 bits and a half are the 53 of a double. With one bit more the largest would be rounded to 1, which has no quantile. */
double fw_uniform(uint64_t seed, uint64_t index) { return ((double)(bits(seed, index) >> 12) + 0.5) * 0x1p-52; }

static double polynomial(const double *coefficients, int degree, double x) {
  double sum = coefficients[degree];
  while (degree-- > 0)
    sum = sum * x + coefficients[degree];
  return sum;
}

/* Wichura (1988), Algorithm AS 241, routine PPND16: rational approximations on the middle and on two ranges of the tails. */
double fw_normal_quantile(double probability) {
  static const double middle_num[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                      1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                      3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static const double middle_den[] = {1.0,
                                      4.2313330701600911252e+1,
                                      6.8718700749205790830e+2,
                                      5.3941960214247511077e+3,
                                      2.1213794301586595867e+4,
                                      3.9307895800092710610e+4,
                                      2.8729085735721942674e+4,
                                      5.2264952788528545610e+3};
  static const double near_num[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                    3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                    2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double near_den[] = {1.0,
                                    2.05319162663775882187e0,
                                    1.67638483018380384940e0,
                                    6.89767334985100004550e-1,
                                    1.48103976427480074590e-1,
                                    1.51986665636164571966e-2,
                                    5.47593808499534494600e-4,
                                    1.05075007164441684324e-9};
  static const double far_num[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                   2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static const double far_den[] = {1.0,
                                   5.99832206555887937690e-1,
                                   1.36929880922735805310e-1,
                                   1.48753612908506148525e-2,
                                   7.86869131145613259100e-4,
                                   1.84631831751005468180e-5,
                                   1.42151175831644588870e-7,
                                   2.04426310338993978564e-15};
  double centred = probability - 0.5;
  if (fabs(centred) <= 0.425) {
    double r = 0.180625 - centred * centred;
    return centred * polynomial(middle_num, 7, r) / polynomial(middle_den, 7, r);
  }
  double r = sqrt(-log(centred < 0 ? probability : 1.0 - probability));
  double size = r <= 5 ? polynomial(near_num, 7, r - 1.6) / polynomial(near_den, 7, r - 1.6)
                       : polynomial(far_num, 7, r - 5) / polynomial(far_den, 7, r - 5);
  return centred < 0 ? -size : size;
}

static int64_t whole(double ns) { return ns <= 0 ? 0 : ns >= (double)FW_LONGEST_NS ? FW_LONGEST_NS : (int64_t)(ns + 0.5); }

static int64_t draw_constant(const fw_distribution *d, uint64_t index) {
  (void)index;
  return (int64_t)d->a;
}

static int64_t draw_uniform(const fw_distribution *d, uint64_t index) {
  return whole(d->a + (d->b - d->a) * fw_uniform(d->seed, index));
}

static int64_t draw_exponential(const fw_distribution *d, uint64_t index) {
  return whole(-d->a * log(fw_uniform(d->seed, index)));
}

static int64_t draw_lognormal(const fw_distribution *d, uint64_t index) {
  return whole(d->a * exp(d->b * fw_normal_quantile(fw_uniform(d->seed, index))));
}

/* The upper bits of bits * count: Lemire's multiplication instead of a division. */
static int64_t draw_empirical(const fw_distribution *d, uint64_t index) {
  return d->values[(uint64_t)(((unsigned __int128)bits(d->seed, index) * d->count) >> 64)];
}

static int64_t draw_per_item(const fw_distribution *d, uint64_t index) { return d->values[index]; }

static int64_t draw_given(const fw_distribution *d, uint64_t index) {
  (void)index;
  return d->given_ns;
}

const fw_distribution_kind fw_distribution_kinds[] = {
    {.name = "constant", .constant = 1, .draw = draw_constant},
    {.name = "uniform", .draw = draw_uniform},
    {.name = "exponential", .draw = draw_exponential},
    {.name = "lognormal", .draw = draw_lognormal},
    {.name = "empirical", .draw = draw_empirical},
    {.name = "per_item", .draw = draw_per_item},
    {.name = "given", .draw = draw_given},
};
const int fw_distribution_kind_count = sizeof fw_distribution_kinds / sizeof *fw_distribution_kinds;
