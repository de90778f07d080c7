/* distribution.h: how long an item takes, drawn from (seed, item index) alone, so that order and strategy cannot change it. */
#ifndef FW_DISTRIBUTION_H
#define FW_DISTRIBUTION_H

#include <stdint.h>

#define FW_LONGEST_NS INT64_C(3155760000000000000) /* 100 Julian years: two of them still fit an int64_t */

typedef struct fw_distribution fw_distribution;

typedef struct fw_distribution_kind {
  const char *name;
  int constant; /* 1: every draw is the same, so equal deadlines need no heap */
  int64_t (*draw)(const fw_distribution *distribution, uint64_t index);
} fw_distribution_kind;

struct fw_distribution {
  const fw_distribution_kind *kind;
  uint64_t seed;
  double a, b; /* constant: a ns; uniform: from a to b ns; exponential: mean a ns; lognormal: median a ns, sigma b of the log */
  const int64_t *values; /* borrowed; empirical: the population; per_item: by index, ns */
  uint64_t count;        /* of values */
  int64_t given_ns;      /* given: the duration that came with the item which is being started */
};

extern const fw_distribution_kind fw_distribution_kinds[];
extern const int fw_distribution_kind_count;

/* The duration of item `index` in ns, 0 to FW_LONGEST_NS. */
static inline int64_t fw_draw(const fw_distribution *distribution, uint64_t index) {
  return distribution->kind->draw(distribution, index);
}

/* A number in (0, 1) for (seed, index). */
double fw_uniform(uint64_t seed, uint64_t index);

/* The standard normal quantile of a probability in (0, 1), relative error about 1e-16. */
double fw_normal_quantile(double probability);

#endif
