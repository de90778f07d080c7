/* crew: threads that pull. Handing each item over from one loop would cost more than the items of a millisecond it hands. */
#include "action.h"

#include <errno.h>

enum { STACK_BYTES = 256 * 1024 };

static int can_take(const fw_run *run) {
  if (run->plan->host.pull != NULL)
    return run->crew.taken < run->ledger->counts.started;
  if (run->ledger->stop || fw_admit(run->plan->strategy, run->ledger->counts) == 0)
    return 0;
  /* The caller looks at these from time to time only; until it does, each thread would start one item after the other. */
  return !fw_cancelled(run->plan) && fw_clock_now(&run->clock) < run->plan->total_timeout_ns;
}

/* The next item is the taker's: one that was pulled has started with the pull, another starts here. */
static int take(fw_run *run, uint64_t *index, int64_t *start_ns) {
  *index = run->crew.taken;
  *start_ns = fw_clock_now(&run->clock);
  if (run->plan->host.pull == NULL) {
    int rc = fw_ledger_start(run->ledger, 1, *start_ns);
    if (rc < 0)
      return rc;
  } else if (run->ledger->latency == NULL) {
    *start_ns = run->ledger->start_ns[*index];
  }
  run->crew.taken++;
  return 0;
}

static void end_item(fw_run *run, uint64_t index, int64_t start_ns, int state) {
  fw_ledger *ledger = run->ledger;
  int64_t now_ns = fw_clock_now(&run->clock);
  /* A thread may see the token or the time before the caller does. If these were the last items, nobody would look again. */
  if (state == FW_CANCELLED && fw_cancelled(run->plan))
    fw_ledger_stop(ledger, FW_STOP_CANCEL);
  if (state == FW_TIMED_OUT && now_ns >= run->plan->total_timeout_ns)
    fw_ledger_stop(ledger, FW_STOP_TIMEOUT);
  fw_ledger_finish(ledger, index, 1, start_ns, now_ns, state);
  atomic_store(&run->stopping, fw_halts(run));
  /* The caller waits for room where it pulls, elsewhere for the end alone and for what may bring it about. */
  if (run->plan->host.pull != NULL || ledger->stop || state != FW_OK || ledger->counts.finished == ledger->counts.total)
    uv_cond_signal(&run->changed);
}

static void worker(void *argument) {
  fw_run *run = argument;
  uv_mutex_lock(&run->lock);
  while (!run->over) {
    if (!can_take(run)) {
      run->crew.idle++;
      uv_cond_wait(&run->crew.item, &run->lock);
      run->crew.idle--;
      continue;
    }
    uint64_t index;
    int64_t start_ns;
    int rc = take(run, &index, &start_ns);
    if (rc == 0 && can_take(run))
      fw_crew_call(run); /* there is at least this thread, so a refusal is no failure */
    if (rc < 0) {
      run->error = rc;
      break;
    }
    uv_mutex_unlock(&run->lock);
    int state = run->plan->action->work(run, index, start_ns);
    uv_mutex_lock(&run->lock);
    end_item(run, index, start_ns, state);
  }
  uv_mutex_unlock(&run->lock);
}

int fw_crew_open(fw_run *run) {
  fw_crew *crew = &run->crew;
  fw_counts *counts = &run->ledger->counts;
  uint64_t most = run->plan->max_threads;
  if (counts->limit < most)
    most = counts->limit;
  if (counts->total < most)
    most = counts->total;
  crew->capacity = most == 0 ? 1 : most;
  crew->threads = fw_resize(&run->ledger->arena, NULL, 0, crew->capacity * sizeof *crew->threads);
  if (crew->threads == NULL)
    return -ENOMEM;
  if (counts->limit > run->plan->max_threads && run->plan->strategy->takes_limit)
    counts->limit = run->plan->max_threads;
  int rc = uv_cond_init(&crew->item);
  if (rc < 0)
    fw_release(&run->ledger->arena, crew->threads, crew->capacity * sizeof *crew->threads);
  return rc;
}

void fw_crew_close(fw_run *run) {
  fw_crew *crew = &run->crew;
  uv_mutex_lock(&run->lock);
  uint64_t count = crew->count;
  uv_cond_broadcast(&crew->item);
  uv_mutex_unlock(&run->lock);
  for (uint64_t i = 0; i < count; i++)
    uv_thread_join(&crew->threads[i]);
  uv_cond_destroy(&crew->item);
  fw_release(&run->ledger->arena, crew->threads, crew->capacity * sizeof *crew->threads);
}

int fw_crew_call(fw_run *run) {
  fw_crew *crew = &run->crew;
  if (crew->idle > 0) {
    uv_cond_signal(&crew->item);
    return 0;
  }
  /* A thread that has no item yet will look for one itself. Pulled items are in flight before they are taken. */
  uint64_t needed = fw_in_flight(run->ledger) + (run->plan->host.pull == NULL);
  if (crew->count >= needed || crew->count == crew->capacity || crew->refused || run->over)
    return 0;
  uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = STACK_BYTES};
  int rc = fw_quiet_thread(&crew->threads[crew->count], &options, worker, run);
  if (rc == 0) {
    crew->count++;
    return 0;
  }
  crew->refused = 1;
  if (crew->count == 0)
    return rc;
  if (run->plan->strategy->has_window)
    run->ledger->counts.limit = crew->count; /* what cannot run is not pulled either */
  return 0;
}
