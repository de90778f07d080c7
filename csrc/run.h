/* run.h: one run in progress, as the engine, its threads and the actions see it. The binding sees engine.h only. */
#ifndef FW_RUN_H
#define FW_RUN_H

#include "clock.h"
#include "crew.h"
#include "engine.h"
#include "servers.h"
#include "slots.h"

#include <errno.h>
#include <stdatomic.h>

struct fw_run {
  const fw_plan *plan; /* borrowed */
  fw_ledger *ledger;   /* borrowed; the caller keeps it */
  fw_clock clock;
  fw_distribution time;   /* how long items take */
  fw_deadlines deadlines; /* ids are item indices, slots or servers, as the action has it */
  fw_slots slots;         /* of items in flight where no column remembers their start */
  fw_servers servers;
  int64_t attend_at_ns; /* CLOCK_MONOTONIC of the next look at the host */
  int64_t pulling_ns;   /* spent in the source */

  /* Where several threads share the run, all above is under `lock`. */
  int shared;
  uv_mutex_t lock;
  uv_cond_t changed;   /* the caller waits on it: an item ended, the run stops */
  int64_t armed_ns;    /* what the settling thread waits for */
  int over;            /* nothing more will happen */
  int error;           /* the first failure of the engine itself, a negative errno */
  atomic_int stopping; /* ledger->stop, once items in flight are to end, to be read without the lock */
  fw_crew crew;        /* the threads of a blocking action */
};

enum { FW_SETTLE_AT_MOST = 16384, FW_STAMP_EVERY = 64 };

/* A deadline's id says with its top bit that the deadline is the item's time-out, not its end. */
#define FW_LATE (UINT64_C(1) << 63)

/* Why items in flight have to end now, or 0. */
static inline int fw_halts(const fw_run *run) {
  int draining = run->ledger->stop == FW_STOP_SOURCE && run->plan->drains && !fw_cancelled(run->plan) &&
                 fw_clock_now(&run->clock) < run->plan->total_timeout_ns;
  return draining ? 0 : run->ledger->stop;
}

/* The earlier of `begin_ns + wait_ns` and the time-out of an item that started at `start_ns`, with FW_LATE put into `id` for the
   latter. An item that would end at the very moment of its time-out is in time. 0, or -EOVERFLOW after 292 years. */
static inline int fw_deadline(const fw_run *run, int64_t begin_ns, int64_t wait_ns, int64_t start_ns, uint64_t *id,
                              int64_t *deadline_ns) {
  int64_t timeout_ns = run->plan->item_timeout_ns;
  if (__builtin_add_overflow(begin_ns, wait_ns, deadline_ns))
    return -EOVERFLOW;
  if (timeout_ns == FW_NEVER || *deadline_ns - start_ns <= timeout_ns)
    return 0;
  *id |= FW_LATE;
  return __builtin_add_overflow(start_ns, timeout_ns, deadline_ns) ? -EOVERFLOW : 0;
}

#endif
