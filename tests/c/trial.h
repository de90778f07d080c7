/* trial.h: one run of the engine as a test wants it, with a host in C and a memory that counts and can fail. */
#ifndef TRIAL_H
#define TRIAL_H

#include "clock.h"
#include "engine.h"

#include <pthread.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define GUARD_NS (20 * SECOND) /* for what takes well below a second, on a machine that is busy or slowed by a tool */

/* A source that is pulled. */
typedef struct supply {
  uint64_t length;         /* items it has; FW_UNKNOWN: endless */
  const int64_t *given_ns; /* borrowed; by index; NULL: 0 */
  uint64_t raise_at;       /* asked for this item, it fails; FW_UNKNOWN: never */
  int raises;              /* what it then gives; 0: FW_PULL_FAILED */
  uint64_t cancel_at;      /* asked for this item, it sets the trial's cancel flag first */
  uint64_t pause_at;       /* asked for this item, it sleeps first; EVERY: for every one */
  int64_t pause_ns;

  /* What was seen. */
  uint64_t pulled, calls, ends;
  int asked_after_end, on_another_thread;
} supply;

#define EVERY (UINT64_MAX - 1) /* for pause_at */

/* Counts what is held; allocations and growths are numbered from 1. */
typedef struct ration {
  uint64_t requests;
  uint64_t fail_at; /* this request fails; 0: none */
  int fail_after;   /* and all that follow it */
  uint64_t refused, refused_shrinks;
  uint64_t blocks, bytes;
} ration;

typedef struct trial {
  fw_plan plan;
  uint64_t total, limit, max_failures; /* as fw_ledger_init takes them */
  int summary, pulled;                 /* keep a summary only; pull from `supply` */
  supply supply;
  ration ration;
  fw_memory memory;
  atomic_int cancel;
  uint64_t ticks, interrupt_at; /* the tick of this number interrupts; 0: none */
  int64_t tick_sleeps_ns;       /* so long does the first tick take */
  pthread_t caller;

  int rc; /* of fw_ledger_init or fw_engine_run */
  fw_ledger ledger;
  fw_outcome outcome;
} trial;

/* A run of no duration on the virtual clock, without time-outs; limit 0: none. Change what you like, then run it. */
void trial_init(trial *trial, const char *strategy, const char *action, uint64_t total, uint64_t limit);

void trial_time(trial *trial, const char *kind, double a, double b);
void trial_values(trial *trial, const int64_t *values_ns, uint64_t count); /* item i takes values_ns[i]; borrowed */
void trial_pull(trial *trial, uint64_t length);                            /* the items come from a source of that length */

/* The same by name, for an int source or a pulled one, columns or a summary; `limit` only where the strategy takes one. */
void trial_init_way(trial *trial, const char *strategy, const char *action, int pulled, int summary, uint64_t items,
                    uint64_t limit);

/* All of them; calls `body` for each strategy and action, each kind of source, columns and a summary, with a context set. */
extern const char *const trial_strategies[4], *const trial_actions[4];
void trial_each_way(void (*body)(const char *strategy, const char *action, int pulled, int summary));
void trial_context(const char *strategy, const char *action, int pulled, int summary);

/* On the real clock. */
void trial_init_real(trial *trial, const char *strategy, const char *action, uint64_t items, uint64_t limit);

/* Runs it and, where the engine could, checks what holds of every run: counts add up, columns agree with them, items start in
   order, no more of them overlap than the limit allows; on the real clock no descriptor stays open and no thread alive. */
void trial_run(trial *trial);

/* The same, within a wide guard and not in less time than its own samples tell. */
void trial_run_guarded(trial *trial);

/* Nothing ended before its time, and the whole took no less than the rule allows. */
void trial_check_never_early(const trial *trial, int64_t least_ns);

/* Has opened and started what a process does but once: libuv's signal pipe, a sanitizer's own thread. */
void trial_warm_up(void);

/* One more than there are, perhaps: for comparisons. */
uint64_t open_descriptors(void);

/* Checks that all memory has been given back. */
void trial_close(trial *trial);

/* The counts by state, in one line of checks. */
void trial_expect(const trial *trial, uint64_t ok, uint64_t failed, uint64_t timed_out, uint64_t cancelled, uint64_t not_started);

/* Columns against tables, in units of `unit_ns`; NULL: not looked at. */
void trial_expect_columns(const trial *trial, int64_t unit_ns, const int64_t *start, const int64_t *finish);

#endif
