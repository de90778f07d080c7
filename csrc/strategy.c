/* strategy: for_each, when_all, bounded and chunked as pure functions of counts. */
#include "strategy.h"

/* Parallel.ForEachAsync, SemaphoreSlim + WhenAll: a free slot is a start. The two differ in their defaults, not in this rule. */
static uint64_t admit_window(fw_counts c) {
  uint64_t in_flight = c.started - c.finished;
  return in_flight < c.limit ? c.limit - in_flight : 0; /* more are in flight where the limit was lowered meanwhile */
}

/* Task.WhenAll, asyncio.gather. */
static uint64_t admit_all(fw_counts c) { return c.total - c.started; }

/* Chunk(n) + WhenAll: a chunk may go on starting while its predecessors are finished; its own items may be. */
static uint64_t admit_chunk(fw_counts c) {
  uint64_t begun = c.started % c.limit; /* of the chunk that is being started */
  if (c.finished < c.started - begun)
    return 0;
  return c.limit - begun;
}

const fw_strategy fw_strategies[] = {
    {.name = "for_each", .takes_limit = 1, .has_window = 1, .may_start = admit_window},
    {.name = "when_all", .reads_ahead = 1, .may_start = admit_all},
    {.name = "bounded", .takes_limit = 1, .has_window = 1, .may_start = admit_window},
    {.name = "chunked", .takes_limit = 1, .may_start = admit_chunk},
};
const int fw_strategy_count = sizeof fw_strategies / sizeof *fw_strategies;

uint64_t fw_admit(const fw_strategy *strategy, fw_counts counts) {
  uint64_t left = counts.total - counts.started; /* an unknown total leaves more than any limit */
  uint64_t may = strategy->may_start(counts);
  return may < left ? may : left;
}
