/* cpu: each item spins for its drawn CPU time on a thread of the run. On the virtual clock CPUs are servers with a queue. */
#include "../action.h"

#include <time.h>

enum { CHECK_EVERY_NS = 50000 };

/* CPU time, not wall time: a thread that has to share its CPU must take longer. */
static int64_t cpu_ns(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static int spin(fw_run *run, uint64_t index, int64_t start_ns) {
  int64_t wanted = fw_draw(&run->time, index), before = cpu_ns(), now_ns = start_ns;
  for (int64_t used = 0; used < wanted || now_ns - start_ns < wanted; used = cpu_ns() - before) {
    int64_t slice = wanted - used < CHECK_EVERY_NS ? wanted - used : CHECK_EVERY_NS, until = now_ns + slice;
    do
      now_ns = fw_clock_now(&run->clock);
    while (now_ns < until);
    int stopping = atomic_load_explicit(&run->stopping, memory_order_relaxed);
    if (stopping == FW_STOP_TIMEOUT || (!stopping && now_ns >= run->plan->total_timeout_ns))
      return FW_TIMED_OUT;
    if (stopping || fw_cancelled(run->plan))
      return FW_CANCELLED;
    if (now_ns - start_ns >= run->plan->item_timeout_ns && cpu_ns() - before < wanted)
      return FW_TIMED_OUT;
  }
  return FW_OK;
}

const fw_action fw_action_cpu = {
    .name = "cpu",
    .work = spin,
    .start = fw_servers_start,
    .next = fw_servers_next,
    .settle = fw_servers_settle,
    .close = fw_servers_close,
};
