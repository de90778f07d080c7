/* engine: one run, from the first pull to the last end. The only file that runs a loop.

   Without a source it starts what may start, settles what is due, and rests until the next deadline:

       while True:
           if strategy.may_start(counts): start(a batch of them at one reading of the clock)
           else:
               settle(due=now)                      # ends items, which makes room; may stop the run
               if nothing in flight and nothing left: break
               if not strategy.may_start(counts): rest(until=next deadline)  # libuv, or a jump of the virtual clock

   A source is asked on the caller's thread and may take its time, so on the real clock a second thread settles and rests while
   the caller pulls and starts. Blocking actions have threads of their own (crew.c); the caller pulls for them or just waits. */
#include "engine.h"

#include "action.h"
#include "actions/list.h"

#include <errno.h>
#include <signal.h>

#define TICK_NS INT64_C(50000000)
#define SLACK_NS INT64_C(50000) /* neighbours this close share a wake: a wake costs about as much CPU time */

enum { REAL_BATCH = 256, VIRTUAL_BATCH = 65536, TURNS_PER_LOOK = 16 };

#define DECLARE(name) extern const fw_action fw_action_##name;
FW_ACTIONS(DECLARE)
#define ADDRESS(name) &fw_action_##name,
const fw_action *const fw_actions[] = {FW_ACTIONS(ADDRESS) NULL};

static void acquire(fw_run *run) {
  if (run->shared)
    uv_mutex_lock(&run->lock);
}

static void release(fw_run *run) {
  if (run->shared)
    uv_mutex_unlock(&run->lock);
}

static int blocks(const fw_run *run) { return run->plan->action->work != NULL && !run->plan->is_virtual; }

static int waits(const fw_run *run) { return run->plan->action->start != NULL && !run->plan->is_virtual && !blocks(run); }

static int exhausted(const fw_run *run) { return run->ledger->counts.started == run->ledger->counts.total; }

/* Whatever is in flight on the clock ends now. Threads end their own items when they see `stopping`. */
static void abandon(fw_run *run) {
  fw_ledger *ledger = run->ledger;
  int64_t now_ns = fw_clock_now(&run->clock);
  int state = ledger->stop == FW_STOP_TIMEOUT ? FW_TIMED_OUT : FW_CANCELLED;
  if (ledger->latency != NULL) {
    fw_ledger_finish(ledger, 0, fw_in_flight(ledger), 0, now_ns, state);
    return;
  }
  for (uint64_t first = 0, end; fw_in_flight(ledger) > 0; first = end + 1) {
    for (end = first; end < ledger->counts.started && ledger->state[end] == FW_IN_FLIGHT; end++)
      ;
    if (end > first)
      fw_ledger_finish(ledger, first, end - first, ledger->start_ns[first], now_ns, state);
  }
}

static void stop(fw_run *run, int cause) {
  fw_ledger_stop(run->ledger, cause);
  atomic_store(&run->stopping, fw_halts(run));
}

/* Stops the run where the time or somebody says so, and ends what is in flight where anything has stopped it. */
static void heed(fw_run *run, int64_t now_ns) {
  fw_ledger *ledger = run->ledger;
  int done = exhausted(run) && fw_in_flight(ledger) == 0;
  if (!done && fw_cancelled(run->plan))
    stop(run, FW_STOP_CANCEL);
  if (!done && now_ns >= run->plan->total_timeout_ns)
    stop(run, FW_STOP_TIMEOUT);
  if (!ledger->stop || !fw_halts(run))
    return;
  atomic_store(&run->stopping, ledger->stop);
  if (!blocks(run) && fw_in_flight(ledger) > 0)
    abandon(run);
}

static int settle(fw_run *run, int64_t now_ns) {
  const fw_action *action = run->plan->action;
  int64_t due_ns = now_ns < run->plan->total_timeout_ns ? now_ns : run->plan->total_timeout_ns;
  int rc = 0;
  /* A part at a time, so that others get their turn; but what was due within the run's time is in time, all of it. */
  while (rc == 0 && fw_in_flight(run->ledger) > 0 && action->next(run, 0) <= due_ns) {
    rc = action->settle(run, due_ns);
    if (now_ns < run->plan->total_timeout_ns)
      break;
  }
  heed(run, now_ns);
  return rc;
}

/* The next `count` items start. */
static int start(fw_run *run, uint64_t count, int64_t now_ns) {
  uint64_t first = run->ledger->counts.started;
  int rc = fw_ledger_start(run->ledger, count, now_ns);
  if (rc < 0)
    return rc;
  if (blocks(run))
    return fw_crew_call(run);
  if (run->plan->action->start != NULL)
    return run->plan->action->start(run, first, count, now_ns);
  fw_ledger_finish(run->ledger, first, count, now_ns, now_ns, FW_OK);
  return 0;
}

/* Called with the lock held where there is one. */
static int take_offer(fw_run *run, int64_t given_ns) {
  fw_ledger *ledger = run->ledger;
  int64_t now_ns = fw_clock_now(&run->clock);
  ledger->pulled++;
  heed(run, now_ns);
  if (ledger->stop)
    return 0;
  int rc;
  if (given_ns < 0) {
    rc = fw_ledger_start(ledger, 1, now_ns);
    if (rc == 0)
      fw_ledger_finish(ledger, ledger->counts.started - 1, 1, now_ns, now_ns, FW_FAILED);
    heed(run, now_ns);
  } else {
    run->time.given_ns = given_ns;
    rc = start(run, 1, now_ns);
    if (run->shared && waits(run) && run->plan->action->next(run, 0) < run->armed_ns)
      fw_clock_wake(&run->clock);
  }
  if (rc < 0)
    run->error = rc;
  return run->error == 0 && !ledger->stop && fw_admit(run->plan->strategy, ledger->counts) > 0;
}

int fw_offer(fw_run *run, int64_t given_ns) {
  acquire(run);
  int more = take_offer(run, given_ns);
  release(run);
  return more;
}

int fw_state_of(fw_run *run, uint64_t index) {
  acquire(run);
  int state = run->ledger->state[index];
  release(run);
  return state;
}

/* Called without the lock. */
static void pull(fw_run *run, uint64_t may) {
  int64_t before_ns = fw_monotonic_ns();
  int rc = run->plan->host.pull(run->plan->host.context, run, may);
  acquire(run);
  run->pulling_ns += fw_monotonic_ns() - before_ns;
  if (rc < 0)
    stop(run, rc == FW_PULL_INTERRUPTED ? FW_STOP_INTERRUPT : FW_STOP_SOURCE);
  if (rc == 0)
    run->ledger->counts.total = run->ledger->counts.started;
  release(run);
}

/* Called with the lock held where there is one; the host is asked without it. */
static void attend(fw_run *run) {
  int64_t now_ns = fw_monotonic_ns();
  if (now_ns < run->attend_at_ns)
    return;
  run->attend_at_ns = now_ns + TICK_NS;
  if (run->plan->host.tick == NULL)
    return;
  uint64_t done = run->ledger->counts.finished, failed = run->ledger->ended[FW_FAILED] + run->ledger->ended[FW_TIMED_OUT];
  release(run);
  int interrupted = run->plan->host.tick(run->plan->host.context, done, failed);
  acquire(run);
  if (interrupted)
    stop(run, FW_STOP_INTERRUPT);
}

static void turn_loop(fw_run *run, int64_t until_ns) {
  if (until_ns <= fw_clock_now(&run->clock))
    return;
  fw_clock_arm(&run->clock, until_ns);
  uv_run(&run->clock.loop, UV_RUN_ONCE);
}

static void rest(fw_run *run) {
  int64_t until_ns = run->plan->action->next(run, run->plan->is_virtual ? 0 : SLACK_NS);
  if (until_ns > run->plan->total_timeout_ns)
    until_ns = run->plan->total_timeout_ns;
  if (run->plan->is_virtual) {
    run->clock.virtual_ns = until_ns;
    return;
  }
  int64_t tick_ns = run->attend_at_ns - run->clock.origin_ns;
  turn_loop(run, until_ns < tick_ns ? until_ns : tick_ns);
}

/* How many items may start at one reading of the clock. Where an item can fail as it starts, one: that may stop the run, and
   then nothing new starts. */
static uint64_t batch(const fw_plan *plan) {
  if (plan->queue != FW_UNKNOWN)
    return 1;
  return plan->is_virtual ? VIRTUAL_BATCH : REAL_BATCH;
}

/* What has to end goes before what may start; else starting comes first, so that no slot is idle while others are settled. */
static uint64_t may_start(const fw_run *run) {
  const fw_plan *plan = run->plan;
  if (run->ledger->stop || fw_cancelled(plan) || fw_clock_now(&run->clock) >= plan->total_timeout_ns)
    return 0;
  return fw_admit(plan->strategy, run->ledger->counts);
}

/* The whole run on the caller's thread. */
static int run_alone(fw_run *run) {
  const fw_plan *plan = run->plan;
  fw_ledger *ledger = run->ledger;
  for (uint64_t turns = 0;; turns++) {
    if (!plan->is_virtual || turns % TURNS_PER_LOOK == 0)
      attend(run);
    uint64_t may = may_start(run);
    int rc = 0;
    if (may > 0 && plan->host.pull != NULL) {
      pull(run, may);
      rc = run->error;
    } else if (may > 0) {
      uint64_t most = batch(plan);
      rc = start(run, may < most ? may : most, fw_clock_now(&run->clock));
    } else {
      rc = settle(run, fw_clock_now(&run->clock));
      if (rc == 0 && fw_in_flight(ledger) == 0 && (ledger->stop || exhausted(run)))
        return 0;
      if (rc == 0 && fw_in_flight(ledger) > 0 && may_start(run) == 0)
        rest(run);
    }
    if (rc < 0)
      return rc;
  }
}

/* The second thread of a run whose source is pulled on the real clock. */
static void settler(void *argument) {
  fw_run *run = argument;
  uv_mutex_lock(&run->lock);
  while (!run->over) {
    int64_t now_ns = fw_clock_now(&run->clock);
    if (run->error == 0) /* else what is pending may be there twice */
      run->error = settle(run, now_ns);
    uv_cond_signal(&run->changed);
    int64_t until_ns = FW_NEVER, last_ns = run->plan->total_timeout_ns;
    if (fw_in_flight(run->ledger) > 0 && run->error == 0) /* deadlines of abandoned items are still there */
      until_ns = run->plan->action->next(run, SLACK_NS);
    if (until_ns > last_ns && !run->ledger->stop)
      until_ns = last_ns;
    if (until_ns > now_ns + TICK_NS)
      until_ns = now_ns + TICK_NS;
    run->armed_ns = until_ns;
    uv_mutex_unlock(&run->lock);
    turn_loop(run, until_ns);
    uv_mutex_lock(&run->lock);
  }
  uv_mutex_unlock(&run->lock);
}

/* The caller's part of a shared run: it pulls while items may start, then waits for the last end. Holds the lock. */
static int oversee(fw_run *run) {
  const fw_plan *plan = run->plan;
  fw_ledger *ledger = run->ledger;
  if (blocks(run) && plan->host.pull == NULL && !exhausted(run)) {
    int rc = fw_crew_call(run);
    if (rc < 0)
      return rc;
  }
  for (;;) {
    attend(run);
    heed(run, fw_clock_now(&run->clock));
    if (run->error < 0)
      return run->error;
    if (fw_in_flight(ledger) == 0 && (ledger->stop || exhausted(run)))
      return 0;
    uint64_t may = ledger->stop || plan->host.pull == NULL ? 0 : fw_admit(plan->strategy, ledger->counts);
    if (may > 0) {
      uv_mutex_unlock(&run->lock);
      pull(run, may);
      uv_mutex_lock(&run->lock);
    } else {
      int64_t left_ns =
          plan->total_timeout_ns == FW_NEVER || ledger->stop ? TICK_NS : plan->total_timeout_ns - fw_clock_now(&run->clock);
      uv_cond_timedwait(&run->changed, &run->lock, left_ns <= 0 ? 1 : left_ns < TICK_NS ? (uint64_t)left_ns : (uint64_t)TICK_NS);
    }
  }
}

/* Signals are for the threads of the caller: none of ours may take one. */
int fw_quiet_thread(uv_thread_t *thread, const uv_thread_options_t *options, uv_thread_cb entry, fw_run *run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int rc = uv_thread_create_ex(thread, options, entry, run);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

static int run_shared(fw_run *run) {
  uv_thread_t second;
  uv_thread_options_t options = {.flags = UV_THREAD_NO_FLAGS};
  run->shared = 1;
  int rc = uv_mutex_init(&run->lock);
  if (rc < 0)
    return rc;
  rc = uv_cond_init(&run->changed);
  if (rc < 0)
    goto unlock;
  rc = blocks(run) ? fw_crew_open(run) : fw_quiet_thread(&second, &options, settler, run);
  if (rc < 0)
    goto unchange;

  uv_mutex_lock(&run->lock);
  rc = oversee(run);
  if (rc < 0)
    stop(run, FW_STOP_INTERRUPT); /* threads look at nothing else while they work */
  run->over = 1;
  uv_mutex_unlock(&run->lock);

  if (blocks(run)) {
    fw_crew_close(run);
  } else {
    fw_clock_wake(&run->clock);
    uv_thread_join(&second);
  }
unchange:
  uv_cond_destroy(&run->changed);
unlock:
  uv_mutex_destroy(&run->lock);
  run->shared = 0;
  return rc;
}

static void close_loop(fw_run *run) {
  if (!run->clock.has_loop)
    return;
  fw_clock_close(&run->clock);
  while (uv_loop_close(&run->clock.loop) == UV_EBUSY)
    uv_run(&run->clock.loop, UV_RUN_ONCE);
}

int fw_engine_run(const fw_plan *plan, fw_ledger *ledger, fw_outcome *outcome) {
  fw_run run = {.plan = plan, .ledger = ledger, .time = plan->time, .clock = {.is_virtual = plan->is_virtual, .timer_fd = -1}};
  uint64_t known = ledger->counts.total;
  int rc = 0;
  *outcome = (fw_outcome){0};
  fw_deadlines_init(&run.deadlines, &ledger->arena);
  if (waits(&run)) {
    rc = fw_clock_open_loop(&run.clock, plan->timer);
    if (rc < 0)
      goto closed;
  }
  if (plan->action->open != NULL)
    rc = plan->action->open(&run);
  if (rc < 0)
    goto closed;
  if (plan->host.pull != NULL)
    ledger->counts.total = FW_UNKNOWN; /* until the source itself says that it has ended */

  run.clock.origin_ns = plan->origin_ns != 0 ? plan->origin_ns : fw_monotonic_ns();
  run.attend_at_ns = run.clock.origin_ns + TICK_NS;
  int shared = blocks(&run) || (waits(&run) && plan->host.pull != NULL);
  rc = shared ? run_shared(&run) : run_alone(&run);

  if (ledger->counts.total == FW_UNKNOWN && known != FW_UNKNOWN)
    ledger->counts.total = known;
  *outcome = (fw_outcome){.threads = run.crew.count,
                          .threads_refused = run.crew.refused,
                          .uses_timerfd = run.clock.timer_fd >= 0,
                          .pulling_ns = run.pulling_ns};
  if (plan->action->close != NULL)
    plan->action->close(&run);
closed:
  close_loop(&run);
  fw_deadlines_close(&run.deadlines);
  return rc < 0 ? rc : fw_ledger_seal(ledger);
}
