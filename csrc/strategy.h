/* strategy.h: the rule that says how many items may start now. Pure functions of counts: anyone may include it. */
#ifndef FW_STRATEGY_H
#define FW_STRATEGY_H

#include <stdint.h>

#define FW_UNKNOWN UINT64_MAX /* a total that is not known, a limit that does not exist */

typedef struct fw_counts {
  uint64_t total;    /* items of the source, or FW_UNKNOWN until it has ended */
  uint64_t started;  /* items started so far, <= total */
  uint64_t finished; /* of those, <= started */
  uint64_t limit;    /* most items in flight, >= 1, or FW_UNKNOWN */
} fw_counts;

typedef struct fw_strategy {
  const char *name;
  int takes_limit; /* 0: there is none, FW_UNKNOWN is passed */
  int has_window;  /* 1: the limit may change during a run */
  int reads_ahead; /* 1: the whole source is read before the first start */
  uint64_t (*may_start)(fw_counts counts);
} fw_strategy;

/* The strategies by number; their order is that of `_core.strategies` in the binding. */
extern const fw_strategy fw_strategies[];
extern const int fw_strategy_count;

/* How many items may start now; 0 when the source is used up or the limit is reached. */
uint64_t fw_admit(const fw_strategy *strategy, fw_counts counts);

#endif
