/* engine.h: runs a native action over a source under a strategy. What a caller of the engine, such as the binding, includes. */
#ifndef FW_ENGINE_H
#define FW_ENGINE_H

#include "distribution.h"
#include "ledger.h"

#include <stdatomic.h>

typedef struct fw_run fw_run;
struct fw_action;

enum { FW_PULL_FAILED = -1, FW_PULL_INTERRUPTED = -2 };

/* What the engine asks of its caller, always on the caller's thread. */
typedef struct fw_host {
  void *context; /* borrowed */

  /* About every 50 ms. Non-zero interrupts the run. */
  int (*tick)(void *context, uint64_t done, uint64_t failed);

  /* Pulls up to `may` items and gives each to fw_offer until that says 0. 1: there may be more; 0: the source has ended;
     or one of FW_PULL_*. NULL: nothing is pulled, the items are their indices. */
  int (*pull)(void *context, fw_run *run, uint64_t may);
} fw_host;

typedef struct fw_plan {
  const fw_strategy *strategy;
  const struct fw_action *action;
  fw_distribution time;     /* how long an item takes; kind `given`: as fw_offer says */
  int64_t item_timeout_ns;  /* FW_NEVER: none */
  int64_t total_timeout_ns; /* FW_NEVER: none */
  uint64_t capacity;        /* service: servers, >= 1; cpu on the virtual clock: CPUs */
  uint64_t queue;           /* service: places in the queue, FW_UNKNOWN: no bound */
  uint64_t max_threads;     /* of blocking actions, >= 1; a lower ceiling than the limit binds instead of it */
  int drains;               /* 1: when the source fails, what is in flight runs to its end instead of being cancelled */
  int is_virtual;
  int timer;                /* FW_TIMER_BEST or FW_TIMER_UV */
  int64_t origin_ns;        /* CLOCK_MONOTONIC at the run's start, or 0: when the engine begins */
  const atomic_int *cancel; /* borrowed, may be NULL: non-zero cancels the run */
  const atomic_int *stop;   /* the same, for whoever runs it on the caller's behalf */
  fw_host host;
} fw_plan;

typedef struct fw_outcome {
  uint64_t threads;    /* that a blocking action had; 0: none were needed */
  int threads_refused; /* 1: the system gave fewer than were wanted */
  int uses_timerfd;    /* 1: deadlines were on a timerfd */
  int64_t pulling_ns;  /* spent in the source while a slot was free */
} fw_outcome;

static inline int fw_cancelled(const fw_plan *plan) {
  return (plan->cancel != NULL && atomic_load_explicit(plan->cancel, memory_order_relaxed)) ||
         (plan->stop != NULL && atomic_load_explicit(plan->stop, memory_order_relaxed));
}

/* Runs the plan to its end. The ledger has been initialised and is sealed by this. 0, or a negative errno when the engine
   itself could not go on; how the run ended is in ledger->stop. */
int fw_engine_run(const fw_plan *plan, fw_ledger *ledger, fw_outcome *outcome);

/* One pulled item, whose time is `given_ns` where the plan says `given` (negative: a value that fails the item). 1: go on
   pulling; 0: do not. */
int fw_offer(fw_run *run, int64_t given_ns);

/* The state of an item that was offered, where columns are kept. For the host, during a pull. */
int fw_state_of(fw_run *run, uint64_t index);

#endif
