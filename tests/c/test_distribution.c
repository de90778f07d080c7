/* test_distribution: draws are a function of (seed, index), keep their values between releases, and follow their laws. */
#include "check.h"
#include "distribution.h"
#include "order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 200000 };
static uint64_t draws = DRAWS;

static fw_distribution of_kind(const char *name, double a, double b) {
  fw_distribution d = {.seed = 42, .a = a, .b = b};
  for (int i = 0; i < fw_distribution_kind_count; i++)
    if (strcmp(fw_distribution_kinds[i].name, name) == 0)
      d.kind = &fw_distribution_kinds[i];
  CHECK(d.kind != NULL);
  return d;
}

/* Another implementation's values of the same bits (Python's integers): a release must not change what a seed draws. */
static void uniform_numbers_are_pinned(void) {
  static const struct {
    uint64_t seed, index;
    double value;
  } pinned[] = {{0, 0, 0.28176129772258507},  {0, 1, 0.6524484863740322},       {1, 0, 0.8628561488610588},
                {42, 7, 0.19535155971618223}, {42, 1000000, 0.920034250807804}, {UINT64_MAX, UINT64_MAX, 0.17965857065220792}};
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
    CHECK(fw_uniform(pinned[i].seed, pinned[i].index) == pinned[i].value);
}

/* The mixing can be undone: these seeds give 64 ones and 64 zeros. Neither end of (0, 1) may be reached, for log and the normal
   quantile have no value there. */
static void the_ends_are_never_drawn(void) {
  static const uint64_t seeds[] = {UINT64_C(0x1e8d824fcb95953d), UINT64_C(0x61c8864680b583eb)};
  static const char *const kinds[] = {"uniform", "exponential", "lognormal"};
  for (int i = 0; i < 2; i++) {
    double u = fw_uniform(seeds[i], 0);
    CHECK(u > 0 && u < 1);
    CHECK_NEAR(u, i == 0, 1e-15);
    CHECK(isfinite(fw_normal_quantile(u)));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      check_context(kinds[k]);
      fw_distribution d = of_kind(kinds[k], 1e6, 2e6);
      d.seed = seeds[i];
      if (k == 2)
        d.b = 1;
      int64_t ns = fw_draw(&d, 0);
      CHECK(ns >= 0 && ns < INT64_C(10000000000));
    }
  }
}

/* Values to 16 digits from another implementation (SciPy's ndtri). */
static void normal_quantiles(void) {
  static const double known[][2] = {
      {0.5, 0.0},
      {0.6, 0.2533471031357997},
      {0.75, 0.6744897501960817},
      {0.25, -0.6744897501960817},
      {0.9, 1.2815515655446004},
      {0.924, 1.432502720825812}, /* the last of the middle and the first of the tail */
      {0.926, 1.446632067158979},
      {0.95, 1.6448536269514722},
      {0.975, 1.959963984540054},
      {0.99, 2.3263478740408408},
      {0.999, 3.090232306167813},
      {0.99999, 4.264890793923841},
      {0.075, -1.4395314709384563},
      {0.0749, -1.4402382675279635},
      {1e-3, -3.090232306167813},
      {1e-6, -4.753424308822899},
      {1e-10, -6.361340902404056},
      {1.4e-11, -6.656723091518184}, /* the near tail and the far one */
      {1.2e-11, -6.679352656501522},
      {1e-15, -7.941345326170998},
      {0x1p-53, -8.209536151601387},
      {1e-50, -14.933337534788487},
      {1e-300, -37.0470962993612},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    CHECK_NEAR(fw_normal_quantile(known[i][0]), known[i][1], 2e-15 * (1 + fabs(known[i][1])));
  /* Odd, and rising across both seams. */
  double before = -100;
  for (double p = 0x1p-40; p < 1; p += 0x1p-12) {
    double z = fw_normal_quantile(p);
    CHECK(z > before);
    before = z;
  }
  for (double p = 0x1p-10; p < 0.5; p += 0x1p-10)
    CHECK_NEAR(fw_normal_quantile(p), -fw_normal_quantile(1 - p), 1e-15);
}

typedef struct sample {
  int64_t *ns; /* sorted */
  double mean, deviation;
} sample;

static sample draw_sample(const fw_distribution *d) {
  sample s = {.ns = malloc(2 * draws * sizeof(int64_t))};
  for (uint64_t i = 0; i < draws; i++)
    s.ns[i] = fw_draw(d, i);
  fw_sort_ns(s.ns, s.ns + draws, draws);
  s.mean = fw_mean_ns(s.ns, draws);
  s.deviation = fw_deviation_ns(s.ns, draws, s.mean);
  return s;
}

static double quantile(const sample *s, double q) { return (double)s->ns[(uint64_t)(q * (double)(draws - 1))]; }

/* The largest distance of the sample from its law; above 1.95 / sqrt(n) once in a thousand seeds, and the seed is fixed. */
static void check_law(const sample *s, double (*law)(double ns)) {
  double largest = 0, n = (double)draws;
  for (uint64_t i = 0; i < draws; i++) {
    double p = law((double)s->ns[i]);
    largest = fmax(largest, fmax(fabs((double)(i + 1) / n - p), fabs(p - (double)i / n)));
  }
  CHECK_NEAR(largest, 0, 1.95 / sqrt(n));
}

static double uniform_law(double ns) { return (ns - 1e8) / 2e8; }
static double exponential_law(double ns) { return 1 - exp(-ns / 5e7); }
static double lognormal_law(double ns) { return 0.5 * erfc(-log(ns / 5e7) / 0.8 / sqrt(2)); }

static void uniform(void) {
  fw_distribution d = of_kind("uniform", 1e8, 3e8);
  sample s = draw_sample(&d);
  CHECK(s.ns[0] >= 100000000 && s.ns[draws - 1] <= 300000000);
  CHECK_NEAR(s.mean, 2e8, 4 * 2e8 / sqrt(12.0 * (double)draws));
  CHECK_NEAR(s.deviation, 2e8 / sqrt(12), 1e6);
  check_law(&s, uniform_law);
  free(s.ns);
}

static void exponential(void) {
  fw_distribution d = of_kind("exponential", 5e7, 0);
  sample s = draw_sample(&d);
  CHECK(s.ns[0] >= 0);
  CHECK_NEAR(s.mean, 5e7, 4 * 5e7 / sqrt((double)draws));
  CHECK_NEAR(s.deviation, 5e7, 1e6);
  CHECK_NEAR(quantile(&s, 0.5), 5e7 * log(2), 5e5);
  CHECK_NEAR(quantile(&s, 0.99), 5e7 * log(100), 5e6);
  check_law(&s, exponential_law);
  free(s.ns);
}

static void lognormal(void) {
  fw_distribution d = of_kind("lognormal", 5e7, 0.8);
  sample s = draw_sample(&d);
  CHECK_NEAR(quantile(&s, 0.5), 5e7, 6e5);
  CHECK_NEAR(quantile(&s, 0.99), 5e7 * exp(0.8 * 2.3263478740408408), 1e7);
  CHECK_NEAR(s.mean, 5e7 * exp(0.32), 8e5);
  check_law(&s, lognormal_law);
  free(s.ns);
}

static void empirical(void) {
  static const int64_t values[] = {10, 20, 30, 40, 1000, 20, 20};
  fw_distribution d = of_kind("empirical", 0, 0);
  d.values = values;
  d.count = 7;
  uint64_t hits[5] = {0};
  for (uint64_t i = 0; i < draws; i++) {
    int64_t ns = fw_draw(&d, i);
    CHECK(ns == 1000 || (ns % 10 == 0 && ns >= 10 && ns <= 40));
    hits[ns == 1000 ? 0 : ns / 10]++;
  }
  double one = (double)draws / 7;
  for (int v = 0; v < 5; v++)
    CHECK_NEAR(hits[v], v == 2 ? 3 * one : one, 5 * sqrt(3 * one));
  d.count = 1;
  CHECK_EQUAL(fw_draw(&d, 12345), 10);
}

static void plain_kinds(void) {
  static const int64_t values[] = {5, 0, FW_LONGEST_NS};
  fw_distribution constant = of_kind("constant", 5e7, 0), per_item = of_kind("per_item", 0, 0), given = of_kind("given", 0, 0);
  CHECK_EQUAL(fw_draw(&constant, 0), 50000000);
  CHECK_EQUAL(fw_draw(&constant, UINT64_MAX), 50000000);
  constant.a = (double)FW_LONGEST_NS;
  CHECK_EQUAL(fw_draw(&constant, 1), FW_LONGEST_NS);
  per_item.values = values;
  per_item.count = 3;
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(fw_draw(&per_item, (uint64_t)i), values[i]);
  given.given_ns = 77;
  CHECK_EQUAL(fw_draw(&given, 3), 77);
  for (int i = 0; i < fw_distribution_kind_count; i++)
    CHECK_EQUAL(fw_distribution_kinds[i].constant, strcmp(fw_distribution_kinds[i].name, "constant") == 0);
}

/* Whatever the parameters, a duration is from 0 to 100 years, and a draw depends on the seed and on the index. */
static void range_and_reproducibility(void) {
  fw_distribution far = of_kind("lognormal", 3e18, 40), wide = of_kind("exponential", (double)FW_LONGEST_NS, 0);
  for (uint64_t i = 0; i < 1000; i++) {
    CHECK(fw_draw(&far, i) >= 0 && fw_draw(&far, i) <= FW_LONGEST_NS);
    CHECK(fw_draw(&wide, i) >= 0 && fw_draw(&wide, i) <= FW_LONGEST_NS);
  }
  fw_distribution same = of_kind("uniform", 0, 1e15), other = same;
  other.seed++;
  for (uint64_t i = 0; i < 1000; i++) {
    int64_t drawn = fw_draw(&same, i);
    CHECK_EQUAL(fw_draw(&same, i), drawn);
    CHECK(fw_draw(&same, i + 1) != drawn);
    CHECK(fw_draw(&other, i) != drawn);
  }
}

int main(int argc, char **argv) {
  if (check_short(argc, argv))
    draws = DRAWS / 20;
  TEST(uniform_numbers_are_pinned);
  TEST(the_ends_are_never_drawn);
  TEST(normal_quantiles);
  TEST(uniform);
  TEST(exponential);
  TEST(lognormal);
  TEST(empirical);
  TEST(plain_kinds);
  TEST(range_and_reproducibility);
  return check_report();
}
