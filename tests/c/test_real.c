/* test_real: runs on the real clock, with the threads that some of them need. Times are asserted from below only: nothing ends
   early; from above there are guards so wide that a loaded machine, or a sanitizer, keeps within them. */
#include "check.h"
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define GUARD_NS (20 * SECOND)

enum { MOST_RUNS = 40 };

static int is_short;

static void in_context(const char *format, const char *a, const char *b, int number) {
  static char text[120];
  snprintf(text, sizeof text, format, a, b, number);
  check_context(text);
}

static void init(trial *t, const char *strategy, const char *action, uint64_t items, uint64_t limit) {
  trial_init(t, strategy, action, items, limit);
  t->plan.is_virtual = 0;
  t->plan.origin_ns = fw_monotonic_ns();
}

/* Within the guard, and not in less time than its own samples tell. */
static void run_cleanly(trial *t) {
  int64_t before_ns = fw_monotonic_ns();
  trial_run(t);
  int64_t took_ns = fw_monotonic_ns() - before_ns;
  CHECK(took_ns < GUARD_NS);
  CHECK(took_ns >= t->ledger.last_finish_ns - (before_ns - t->plan.origin_ns));
}

/* Nothing ended before its time, and the whole took no less than the rule allows. */
static void check_never_early(const trial *t, int64_t least_ns) {
  for (uint64_t i = 0; !t->summary && i < t->ledger.counts.total; i++)
    if (t->ledger.state[i] == FW_OK)
      CHECK(t->ledger.finish_ns[i] - t->ledger.start_ns[i] >= fw_draw(&t->plan.time, i));
  if (t->summary && t->ledger.latency->n > 0)
    CHECK(t->ledger.latency->min_ns >= (int64_t)t->plan.time.a);
  CHECK(t->ledger.last_finish_ns >= least_ns);
}

static void delays_never_end_early(void) {
  static const struct {
    const char *strategy;
    uint64_t items, limit;
    int64_t delay_ns, least_ns;
  } runs[] = {{"bounded", 200, 20, 3 * MS, 30 * MS},   {"for_each", 60, 8, 1500 * US, 12 * MS},
              {"when_all", 500, 0, 10 * MS, 10 * MS},  {"chunked", 50, 20, 5 * MS, 15 * MS},
              {"bounded", 300, 30, 20 * US, 200 * US}, {"bounded", 20, 4, 1, 5}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++)
      for (int way = 0; way < 4; way++) {
        in_context("%s%s, run %d", runs[i].strategy, timer == FW_TIMER_UV ? ", uv_timer_t" : "", (int)i);
        trial t;
        init(&t, runs[i].strategy, "delay", runs[i].items, runs[i].limit);
        trial_time(&t, "constant", (double)runs[i].delay_ns, 0);
        t.plan.timer = timer;
        t.summary = way >> 1;
        if (way & 1)
          trial_pull(&t, runs[i].items);
        run_cleanly(&t);
        trial_expect(&t, runs[i].items, 0, 0, 0, 0);
        check_never_early(&t, runs[i].least_ns);
#ifdef __linux__
        CHECK_EQUAL(t.outcome.uses_timerfd, timer == FW_TIMER_BEST);
#endif
        trial_close(&t);
      }
}

static void drawn_delays_never_end_early(void) {
  for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++)
    for (int pulled = 0; pulled < 2; pulled++) {
      in_context("%s%s", pulled ? "pulled" : "int", timer == FW_TIMER_UV ? ", uv_timer_t" : "", 0);
      trial t;
      init(&t, "bounded", "delay", 400, 50);
      trial_time(&t, "exponential", 1e6, 0);
      t.plan.timer = timer;
      if (pulled)
        trial_pull(&t, 400);
      run_cleanly(&t);
      trial_expect(&t, 400, 0, 0, 0, 0);
      check_never_early(&t, 1);
      trial_close(&t);
    }
}

/* Neighbours share a wake, so that thousands of deadlines do not cost as many. They all must end nevertheless. */
static void dense_deadlines(void) {
  trial t;
  init(&t, "when_all", "delay", is_short ? 2000 : 50000, 0);
  trial_time(&t, "uniform", 1e6, 3e7);
  run_cleanly(&t);
  trial_expect(&t, t.total, 0, 0, 0, 0);
  check_never_early(&t, 1 * MS);
  trial_close(&t);
}

static void no_duration_needs_no_loop(void) {
  for (int pulled = 0; pulled < 2; pulled++) {
    trial t;
    init(&t, "bounded", "noop", 10000, 3);
    if (pulled)
      trial_pull(&t, 10000);
    run_cleanly(&t);
    trial_expect(&t, 10000, 0, 0, 0, 0);
    CHECK_EQUAL(t.outcome.uses_timerfd, 0);
    trial_close(&t);
  }
}

/* Four servers of 2 ms: 40 items take 20 ms, however many are in flight. */
static void service_never_serves_more_than_it_has_servers(void) {
  for (int pulled = 0; pulled < 2; pulled++) {
    trial t;
    init(&t, "bounded", "service", 40, 30);
    trial_time(&t, "constant", 2 * MS, 0);
    t.plan.capacity = 4;
    if (pulled)
      trial_pull(&t, 40);
    run_cleanly(&t);
    trial_expect(&t, 40, 0, 0, 0, 0);
    check_never_early(&t, 20 * MS);
    trial_close(&t);
  }
  /* A queue that is full turns away; a time-out ends the wait. */
  trial t;
  init(&t, "when_all", "service", 10, 0);
  trial_time(&t, "constant", 10 * SECOND, 0);
  t.plan.capacity = 2;
  t.plan.queue = 3;
  t.plan.item_timeout_ns = 30 * MS;
  run_cleanly(&t);
  trial_expect(&t, 0, 5, 5, 0, 0);
  CHECK(t.ledger.last_finish_ns >= 30 * MS);
  trial_close(&t);
}

/* While the source takes its time items end all the same. */
static void items_end_while_the_source_is_asked(void) {
  for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++) {
    trial t;
    init(&t, "bounded", "delay", 12, 5);
    trial_time(&t, "constant", 1 * MS, 0);
    trial_pull(&t, 12);
    t.plan.timer = timer;
    t.supply.pause_at = EVERY;
    t.supply.pause_ns = 20 * MS;
    run_cleanly(&t);
    trial_expect(&t, 12, 0, 0, 0, 0);
    check_never_early(&t, 12 * 20 * MS + MS);
    CHECK(t.ledger.finish_ns[0] < t.ledger.start_ns[11]);
    CHECK(t.outcome.pulling_ns >= 12 * 20 * MS);
    trial_close(&t);
  }
}

/* When the run stops while the source is asked, nobody waits at the cost of a CPU. */
static void a_slow_source_costs_no_cpu_time_after_a_stop(void) {
  trial t;
  init(&t, "bounded", "delay", 100, 50);
  trial_time(&t, "constant", 200 * MS, 0);
  trial_pull(&t, 100);
  t.plan.total_timeout_ns = 100 * MS;
  t.supply.pause_at = 10;
  t.supply.pause_ns = 600 * MS;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  run_cleanly(&t);
  getrusage(RUSAGE_SELF, &after);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_TIMEOUT);
  CHECK_EQUAL(t.ledger.ended[FW_TIMED_OUT], t.ledger.counts.started);
  CHECK(t.ledger.last_finish_ns < 600 * MS); /* the items did not wait for the source */
  int64_t used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                    after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
  CHECK_AT_MOST(used_us, 250000);
  trial_close(&t);
}

/* Threads of the run spin; there are never more of them than items may be in flight, and none at all for no items. */
static void cpu_items_run_on_threads_of_the_run(void) {
  static const struct {
    const char *strategy;
    uint64_t items, limit, max_threads, threads;
  } runs[] = {{"bounded", 24, 4, 64, 4}, {"for_each", 3, 8, 64, 3}, {"when_all", 20, 0, 3, 3},
              {"chunked", 10, 4, 64, 4}, {"bounded", 5, 1, 64, 1},  {"bounded", 12, 10, 2, 2}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    for (int way = 0; way < 4; way++) {
      in_context("%s%s, run %d", runs[i].strategy, way & 1 ? ", pulled" : "", (int)i);
      trial t;
      init(&t, runs[i].strategy, "cpu", runs[i].items, runs[i].limit);
      trial_time(&t, "constant", 300 * US, 0);
      t.plan.max_threads = runs[i].max_threads;
      t.summary = way >> 1;
      if (way & 1)
        trial_pull(&t, runs[i].items);
      run_cleanly(&t);
      trial_expect(&t, runs[i].items, 0, 0, 0, 0);
      check_never_early(&t, 300 * US);
      CHECK(t.outcome.threads >= 1);
      CHECK_AT_MOST(t.outcome.threads, runs[i].threads);
      CHECK_EQUAL(t.outcome.threads_refused, 0);
      uint64_t most = t.limit < runs[i].max_threads || t.limit == FW_UNKNOWN ? t.limit : runs[i].max_threads;
      CHECK_EQUAL(t.ledger.counts.limit, most); /* a ceiling that binds is the limit in force */
      trial_close(&t);
    }
}

/* Time is CPU time: threads that have to share the CPUs take longer. */
static void shared_cpus_make_items_take_longer(void) {
  uint64_t cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (cpus > 16)
    return; /* too many threads for a test */
  trial t;
  init(&t, "bounded", "cpu", 4 * cpus, 4 * cpus);
  trial_time(&t, "constant", 5 * MS, 0);
  run_cleanly(&t);
  trial_expect(&t, 4 * cpus, 0, 0, 0, 0);
  check_never_early(&t, 20 * MS);
  trial_close(&t);
}

/* Pulled items are in flight, and their time runs, while they wait for a thread. */
static void waiting_for_a_thread_counts(void) {
  trial t;
  init(&t, "when_all", "cpu", 5, 0);
  trial_time(&t, "constant", 20 * MS, 0);
  trial_pull(&t, 5);
  t.plan.max_threads = 1;
  t.plan.item_timeout_ns = 30 * MS;
  run_cleanly(&t);
  CHECK(t.ledger.ended[FW_OK] <= 1);
  CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_TIMED_OUT], 5);
  trial_close(&t);
}

static void cpu_items_time_out(void) {
  trial t;
  init(&t, "bounded", "cpu", 6, 3);
  trial_time(&t, "constant", 100 * SECOND, 0);
  t.plan.item_timeout_ns = 5 * MS;
  run_cleanly(&t);
  trial_expect(&t, 0, 0, 6, 0, 0);
  for (int i = 0; i < 6; i++)
    CHECK(t.ledger.finish_ns[i] - t.ledger.start_ns[i] >= 5 * MS);
  trial_close(&t);

  init(&t, "for_each", "cpu", 6, 2); /* the first failure stops the others */
  trial_time(&t, "constant", 100 * SECOND, 0);
  t.plan.item_timeout_ns = 5 * MS;
  t.max_failures = 0;
  run_cleanly(&t);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_FAILURE);
  CHECK(t.ledger.ended[FW_TIMED_OUT] >= 1);
  CHECK(t.ledger.ended[FW_NOT_STARTED] >= 3);
  trial_close(&t);
}

static const char *const waiting[] = {"delay", "service", "cpu"};

/* Endless work under a bound on the whole. */
static void total_timeout_ends_everything(void) {
  for (int action = 0; action < 3; action++)
    for (int pulled = 0; pulled < 2; pulled++) {
      in_context("%s%s", waiting[action], pulled ? ", pulled" : "", 0);
      trial t;
      init(&t, "bounded", waiting[action], 10, 3);
      trial_time(&t, "constant", 100 * SECOND, 0);
      t.plan.total_timeout_ns = 20 * MS;
      if (pulled)
        trial_pull(&t, 10);
      run_cleanly(&t);
      CHECK_EQUAL(t.ledger.stop, FW_STOP_TIMEOUT);
      CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_FAILED] + t.ledger.ended[FW_CANCELLED], 0);
      CHECK_EQUAL(t.ledger.ended[FW_TIMED_OUT], t.ledger.counts.started); /* none, on a machine busy enough */
      CHECK(t.ledger.last_finish_ns >= 20 * MS || t.ledger.counts.started == 0);
      CHECK_EQUAL(t.ledger.counts.total, 10);
      trial_close(&t);
    }
}

static void *cancel_later(void *argument) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  atomic_store((atomic_int *)argument, 1);
  return NULL;
}

static void another_thread_cancels(void) {
  for (int action = 0; action < 3; action++)
    for (int way = 0; way < 4; way++) {
      in_context("%s%s%d", waiting[action], way & 1 ? ", pulled, " : ", ", way);
      trial t;
      init(&t, "bounded", waiting[action], way & 1 ? FW_UNKNOWN : 1000, 3);
      trial_time(&t, "constant", 100 * SECOND, 0);
      t.plan.timer = way >> 1 ? FW_TIMER_UV : FW_TIMER_BEST;
      if (way & 1)
        trial_pull(&t, FW_UNKNOWN); /* endless */
      pthread_t thread;
      pthread_create(&thread, NULL, cancel_later, &t.cancel);
      trial_run(&t);
      pthread_join(thread, NULL);
      CHECK_EQUAL(t.rc, 0);
      CHECK_EQUAL(t.ledger.stop, FW_STOP_CANCEL);
      CHECK(t.ledger.last_finish_ns < GUARD_NS);
      CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_FAILED] + t.ledger.ended[FW_TIMED_OUT], 0);
      CHECK(t.ledger.ended[FW_CANCELLED] <= 3);
      if (way & 1)
        CHECK_AT_MOST(t.supply.pulled, 3);
      trial_close(&t);
    }
}

/* Neither what is due nor a flag waits for the next tick. A busy machine may be late at any time, but hardly every time: what counts
   is the best of some tries. */
enum { TRIES = 6 };

static int64_t best_of(int64_t (*take)(void)) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < TRIES && best > 15 * MS; i++) {
    int64_t took = take();
    if (took < best)
      best = took;
  }
  return best;
}

/* From the cancel, 20 ms after the start, to the end of the run. */
static int64_t cancel_cpu(void) {
  trial t;
  init(&t, "bounded", "cpu", 1000, 2);
  trial_time(&t, "constant", 100 * SECOND, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_later, &t.cancel);
  trial_run(&t);
  int64_t took_ns = fw_monotonic_ns() - t.plan.origin_ns - 20 * MS;
  pthread_join(thread, NULL);
  trial_close(&t);
  return took_ns;
}

/* An item of 1 ms that comes while the settling thread waits for something later, or for nothing. */
static int64_t first_pulled_item(void) {
  trial t;
  init(&t, "bounded", "delay", 1, 2);
  trial_time(&t, "constant", 1 * MS, 0);
  trial_pull(&t, 1);
  t.supply.pause_at = 1;
  t.supply.pause_ns = 60 * MS;
  run_cleanly(&t);
  trial_expect(&t, 1, 0, 0, 0, 0);
  int64_t took_ns = t.ledger.finish_ns[0] - t.ledger.start_ns[0];
  trial_close(&t);
  return took_ns;
}

/* Ten items of 1 ms one after the other: each end makes room for a pull. */
static int64_t pulls_one_by_one(void) {
  trial t;
  init(&t, "bounded", "delay", 10, 1);
  trial_time(&t, "constant", 1 * MS, 0);
  trial_pull(&t, 10);
  run_cleanly(&t);
  trial_expect(&t, 10, 0, 0, 0, 0);
  int64_t took_ns = t.ledger.last_finish_ns;
  trial_close(&t);
  return took_ns / 10; /* for each */
}

static void nothing_waits_for_a_tick(void) {
  if (is_short)
    return;
  CHECK_AT_MOST(best_of(cancel_cpu), 20 * MS);
  CHECK_AT_MOST(best_of(first_pulled_item), 30 * MS);
  CHECK_AT_MOST(best_of(pulls_one_by_one), 30 * MS);
}

/* A downstream goes on while we are kept away from it: what it would have done meanwhile is done when we are back. */
static void servers_do_not_wait_for_a_late_wake(void) {
  if (is_short)
    return;
  trial t;
  init(&t, "when_all", "service", 60, 0);
  trial_time(&t, "constant", 10 * MS, 0);
  t.tick_sleeps_ns = 450 * MS;
  run_cleanly(&t);
  trial_expect(&t, 60, 0, 0, 0, 0);
  check_never_early(&t, 600 * MS);
  CHECK(t.ledger.finish_ns[40] - t.ledger.finish_ns[10] < 150 * MS); /* 300 ms, had it begun each when we came */
  trial_close(&t);
}

/* A thread sees the token or the end of time before the caller does. Where its item was the last, it is said all the same. */
static void the_last_item_is_stopped(void) {
  for (int cancels = 0; cancels < 2; cancels++)
    for (int pulled = 0; pulled < 2; pulled++) {
      in_context("%s%s", cancels ? "cancel" : "timeout", pulled ? ", pulled" : "", 0);
      trial t;
      init(&t, "bounded", "cpu", 1, 2);
      trial_time(&t, "constant", 100 * SECOND, 0);
      if (pulled)
        trial_pull(&t, 1);
      if (!cancels)
        t.plan.total_timeout_ns = 20 * MS;
      pthread_t thread;
      if (cancels)
        pthread_create(&thread, NULL, cancel_later, &t.cancel);
      trial_run(&t);
      if (cancels)
        pthread_join(thread, NULL);
      CHECK_EQUAL(t.rc, 0);
      CHECK_EQUAL(t.ledger.stop, cancels ? FW_STOP_CANCEL : FW_STOP_TIMEOUT);
      CHECK_EQUAL(t.ledger.ended[cancels ? FW_CANCELLED : FW_TIMED_OUT], t.ledger.counts.started);
      CHECK_EQUAL(t.ledger.counts.total, 1);
      trial_close(&t);
    }
}

/* About every 50 ms, on the caller's thread (the trial checks that), with the run's lock free. */
static void ticks_come_and_interrupt(void) {
  for (int action = 0; action < 3; action++)
    for (int pulled = 0; pulled < 2; pulled++) {
      in_context("%s%s", waiting[action], pulled ? ", pulled" : "", 0);
      trial t;
      init(&t, "bounded", waiting[action], 100, 2);
      trial_time(&t, "constant", 100 * SECOND, 0);
      t.interrupt_at = 2;
      if (pulled)
        trial_pull(&t, 100);
      run_cleanly(&t);
      CHECK_EQUAL(t.rc, 0);
      CHECK(t.ticks >= 2); /* one more where the threads are slow to end */
      CHECK_EQUAL(t.ledger.stop, FW_STOP_INTERRUPT);
      CHECK_EQUAL(t.ledger.ended[FW_OK], 0);
      CHECK(t.ledger.last_finish_ns >= 100 * MS);
      trial_close(&t);
    }
}

/* A source that fails: what is in flight is cancelled, or runs to its end where all outcomes are kept. */
static void a_source_fails(void) {
  for (int action = 0; action < 3; action++)
    for (int drains = 0; drains < 2; drains++) {
      in_context("%s%s", waiting[action], drains ? ", drains" : "", 0);
      trial t;
      init(&t, "bounded", waiting[action], 10, 5);
      trial_time(&t, "constant", (double)(drains ? 10 * MS : 100 * SECOND), 0);
      trial_pull(&t, 10);
      t.supply.raise_at = 4;
      t.plan.drains = drains;
      run_cleanly(&t);
      trial_expect(&t, drains ? 4 : 0, 0, 0, drains ? 0 : 4, 6);
      CHECK_EQUAL(t.ledger.stop, FW_STOP_SOURCE);
      trial_close(&t);
    }
}

/* libuv aborts when its first loop finds too few descriptors; a run must say so instead. Valgrind has a limit of its own. */
static void too_few_descriptors_are_an_error(void) {
  if (is_short)
    return;
  struct rlimit before, few;
  getrlimit(RLIMIT_NOFILE, &before);
  few = before;
  few.rlim_cur = (rlim_t)open_descriptors() + 3;
  for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++) {
    trial t;
    init(&t, "bounded", "delay", 10, 5);
    t.plan.timer = timer;
    setrlimit(RLIMIT_NOFILE, &few);
    trial_run(&t);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK_EQUAL(t.rc, -EMFILE);
    trial_close(&t);
    init(&t, "bounded", "cpu", 3, 2); /* needs none */
    setrlimit(RLIMIT_NOFILE, &few);
    trial_run(&t);
    setrlimit(RLIMIT_NOFILE, &before);
    trial_expect(&t, 3, 0, 0, 0, 0);
    trial_close(&t);
  }
}

/* A caller without standard streams: libuv aborts rather than close one of their numbers, so it must not get one. */
static void standard_streams_may_be_closed(void) {
  int saved[] = {dup(0), dup(1)};
  for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++) {
    trial t;
    init(&t, "bounded", "delay", 10, 5);
    t.plan.timer = timer;
    trial_pull(&t, 10);
    close(0);
    close(1);
    trial_run(&t);
    CHECK(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0); /* left as they were */
    dup2(saved[0], 0);
    dup2(saved[1], 1);
    trial_expect(&t, 10, 0, 0, 0, 0);
    trial_close(&t);
  }
  close(saved[0]);
  close(saved[1]);
}

static void *run_one(void *argument) {
  trial *t = argument;
  fw_ledger_init(&t->ledger, &fw_system_memory, t->total, t->limit, 1);
  t->rc = fw_engine_run(&t->plan, &t->ledger, &t->outcome);
  return NULL;
}

static void run_all(trial *trials, int count) {
  pthread_t threads[MOST_RUNS];
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, run_one, &trials[i]);
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    trial_expect(&trials[i], trials[i].total, 0, 0, 0, 0);
    check_never_early(&trials[i], 1);
    fw_ledger_close(&trials[i].ledger);
  }
}

/* Runs share nothing. */
static void runs_side_by_side(void) {
  enum { RUNS = 6 };
  static trial t[RUNS];
  for (int i = 0; i < RUNS; i++) {
    init(&t[i], "bounded", waiting[i % 3], 60, 20);
    trial_time(&t[i], "exponential", 2e5, 0);
    t[i].plan.capacity = 8;
    t[i].plan.timer = i < 3 ? FW_TIMER_BEST : FW_TIMER_UV;
  }
  run_all(t, RUNS);
}

/* libuv's clock has whole milliseconds. About once in a thousand waits of one, the next begins between the setting of the timer
   and libuv's look at it, which must not make it wait for ever: here are 6,000 waits, side by side. */
static void waits_that_are_over_before_they_begin(void) {
  static trial t[MOST_RUNS];
  int runs = is_short ? 4 : MOST_RUNS;
  for (int i = 0; i < runs; i++) {
    init(&t[i], "bounded", "delay", 150, 1);
    trial_time(&t[i], "constant", 1e5, 0);
    t[i].plan.timer = FW_TIMER_UV;
  }
  run_all(t, runs);
}

int main(int argc, char **argv) {
  is_short = check_short(argc, argv);
  TEST(trial_warm_up);
  TEST(delays_never_end_early);
  TEST(drawn_delays_never_end_early);
  TEST(dense_deadlines);
  TEST(no_duration_needs_no_loop);
  TEST(service_never_serves_more_than_it_has_servers);
  TEST(items_end_while_the_source_is_asked);
  TEST(a_slow_source_costs_no_cpu_time_after_a_stop);
  TEST(cpu_items_run_on_threads_of_the_run);
  TEST(shared_cpus_make_items_take_longer);
  TEST(waiting_for_a_thread_counts);
  TEST(cpu_items_time_out);
  TEST(total_timeout_ends_everything);
  TEST(another_thread_cancels);
  TEST(the_last_item_is_stopped);
  TEST(nothing_waits_for_a_tick);
  TEST(servers_do_not_wait_for_a_late_wake);
  TEST(ticks_come_and_interrupt);
  TEST(a_source_fails);
  TEST(too_few_descriptors_are_an_error);
  TEST(standard_streams_may_be_closed);
  TEST(runs_side_by_side);
  TEST(waits_that_are_over_before_they_begin);
  return check_report();
}
