/* ledger.h: what a run knows of its items: counts, the columns start/finish/state, and tallies. Every driver keeps one. */
#ifndef FW_LEDGER_H
#define FW_LEDGER_H

#include "memory.h"
#include "strategy.h"
#include "tally.h"

/* How an item ended; the column `state` holds these numbers. */
enum { FW_OK, FW_FAILED, FW_TIMED_OUT, FW_CANCELLED, FW_NOT_STARTED, FW_STATES, FW_IN_FLIGHT = -1 };

/* Why a run stopped before its source was used up, in rising precedence: a later cause replaces an earlier one. */
enum { FW_RUNNING, FW_STOP_FAILURE, FW_STOP_TIMEOUT, FW_STOP_CANCEL, FW_STOP_SOURCE, FW_STOP_INTERRUPT };

typedef struct fw_ledger {
  fw_arena arena;
  fw_counts counts;
  uint64_t pulled;           /* items taken from the source, >= counts.started; the difference never starts */
  uint64_t ended[FW_STATES]; /* items by final state; not_started only once the run is closed */
  uint64_t max_failures;     /* more failed and timed-out items than this stop the run; FW_UNKNOWN: never */
  uint64_t peak_in_flight;
  int64_t last_finish_ns; /* since the run's start */
  int stop;               /* FW_RUNNING, or why nothing new starts */

  /* Columns: one owned block of `capacity` items, or NULL where only a summary is kept. */
  int64_t *start_ns, *finish_ns; /* since the run's start; -1: never */
  int8_t *state;
  uint64_t capacity;  /* items the columns have room for */
  size_t block_bytes; /* of the block; more than the columns need only if it could not shrink */

  /* Owned; NULL where columns are kept. Of ok items only. */
  fw_tally *latency, *wait;
} fw_ledger;

enum { FW_ITEM_BYTES = 2 * sizeof(int64_t) + sizeof(int8_t) };

/* 0, or -ENOMEM with nothing held. `total` may be FW_UNKNOWN; `samples` says whether columns are kept. */
int fw_ledger_init(fw_ledger *ledger, const fw_memory *memory, uint64_t total, uint64_t limit, int samples);
void fw_ledger_close(fw_ledger *ledger);

/* Items `first` .. `first + count - 1` start now; they must be the next ones. 0, or -ENOMEM with none of them started. */
int fw_ledger_start(fw_ledger *ledger, uint64_t count, int64_t now_ns);

/* Items in flight that started at `start_ns` (used only where no columns are kept) end in `state`. May set `stop` by the rule of max_failures. */
void fw_ledger_finish(fw_ledger *ledger, uint64_t first, uint64_t count, int64_t start_ns, int64_t now_ns, int state);

/* The run is over: whatever was pulled or is known and never started becomes not_started. 0 or -ENOMEM. */
int fw_ledger_seal(fw_ledger *ledger);

/* A cause takes the place of a weaker one. */
void fw_ledger_stop(fw_ledger *ledger, int cause);

/* Item `index` will end soon: its places in the columns may be far from all that was touched lately. */
static inline void fw_ledger_expect(const fw_ledger *ledger, uint64_t index) {
  if (ledger->latency != NULL)
    return;
  __builtin_prefetch(&ledger->finish_ns[index], 1);
  __builtin_prefetch(&ledger->state[index], 1);
}

static inline uint64_t fw_in_flight(const fw_ledger *ledger) { return ledger->counts.started - ledger->counts.finished; }

#endif
