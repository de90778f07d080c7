/* test_real: runs on the real clock, with the threads that some of them need. Times are asserted from below only: nothing ends
   early; from above there are guards so wide that a loaded machine, or a sanitizer, keeps within them. */
#include "check.h"
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_RUNS = 40 };

static int is_short;

static void in_context(const char *format, const char *a, const char *b, int number) {
  static char text[120];
  snprintf(text, sizeof text, format, a, b, number);
  check_context(text);
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
        trial_init_real(&t, runs[i].strategy, "delay", runs[i].items, runs[i].limit);
        trial_time(&t, "constant", (double)runs[i].delay_ns, 0);
        t.plan.timer = timer;
        t.summary = way >> 1;
        if (way & 1)
          trial_pull(&t, runs[i].items);
        trial_run_guarded(&t);
        trial_expect(&t, runs[i].items, 0, 0, 0, 0);
        trial_check_never_early(&t, runs[i].least_ns);
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
      trial_init_real(&t, "bounded", "delay", 400, 50);
      trial_time(&t, "exponential", 1e6, 0);
      t.plan.timer = timer;
      if (pulled)
        trial_pull(&t, 400);
      trial_run_guarded(&t);
      trial_expect(&t, 400, 0, 0, 0, 0);
      trial_check_never_early(&t, 1);
      trial_close(&t);
    }
}

/* Neighbours share a wake, so that thousands of deadlines do not cost as many. They all must end nevertheless. */
static void dense_deadlines(void) {
  trial t;
  trial_init_real(&t, "when_all", "delay", is_short ? 2000 : 50000, 0);
  trial_time(&t, "uniform", 1e6, 3e7);
  trial_run_guarded(&t);
  trial_expect(&t, t.total, 0, 0, 0, 0);
  trial_check_never_early(&t, 1 * MS);
  trial_close(&t);
}

static void no_duration_needs_no_loop(void) {
  for (int pulled = 0; pulled < 2; pulled++) {
    trial t;
    trial_init_real(&t, "bounded", "noop", 10000, 3);
    if (pulled)
      trial_pull(&t, 10000);
    trial_run_guarded(&t);
    trial_expect(&t, 10000, 0, 0, 0, 0);
    CHECK_EQUAL(t.outcome.uses_timerfd, 0);
    trial_close(&t);
  }
}

/* Four servers of 2 ms: 40 items take 20 ms, however many are in flight. */
static void service_never_serves_more_than_it_has_servers(void) {
  for (int pulled = 0; pulled < 2; pulled++) {
    trial t;
    trial_init_real(&t, "bounded", "service", 40, 30);
    trial_time(&t, "constant", 2 * MS, 0);
    t.plan.capacity = 4;
    if (pulled)
      trial_pull(&t, 40);
    trial_run_guarded(&t);
    trial_expect(&t, 40, 0, 0, 0, 0);
    trial_check_never_early(&t, 20 * MS);
    trial_close(&t);
  }
  /* A queue that is full turns away; a time-out ends the wait. */
  trial t;
  trial_init_real(&t, "when_all", "service", 10, 0);
  trial_time(&t, "constant", 10 * SECOND, 0);
  t.plan.capacity = 2;
  t.plan.queue = 3;
  t.plan.item_timeout_ns = 30 * MS;
  trial_run_guarded(&t);
  trial_expect(&t, 0, 5, 5, 0, 0);
  CHECK(t.ledger.last_finish_ns >= 30 * MS);
  trial_close(&t);
}

/* While the source takes its time items end all the same. */
static void items_end_while_the_source_is_asked(void) {
  for (int timer = FW_TIMER_BEST; timer <= FW_TIMER_UV; timer++) {
    trial t;
    trial_init_real(&t, "bounded", "delay", 12, 5);
    trial_time(&t, "constant", 1 * MS, 0);
    trial_pull(&t, 12);
    t.plan.timer = timer;
    t.supply.pause_at = EVERY;
    t.supply.pause_ns = 20 * MS;
    trial_run_guarded(&t);
    trial_expect(&t, 12, 0, 0, 0, 0);
    trial_check_never_early(&t, 12 * 20 * MS + MS);
    CHECK(t.ledger.finish_ns[0] < t.ledger.start_ns[11]);
    CHECK(t.outcome.pulling_ns >= 12 * 20 * MS);
    trial_close(&t);
  }
}

/* When the run stops while the source is asked, nobody waits at the cost of a CPU. */
static void a_slow_source_costs_no_cpu_time_after_a_stop(void) {
  trial t;
  trial_init_real(&t, "bounded", "delay", 100, 50);
  trial_time(&t, "constant", 200 * MS, 0);
  trial_pull(&t, 100);
  t.plan.total_timeout_ns = 100 * MS;
  t.supply.pause_at = 10;
  t.supply.pause_ns = 600 * MS;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  trial_run_guarded(&t);
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
      trial_init_real(&t, runs[i].strategy, "cpu", runs[i].items, runs[i].limit);
      trial_time(&t, "constant", 300 * US, 0);
      t.plan.max_threads = runs[i].max_threads;
      t.summary = way >> 1;
      if (way & 1)
        trial_pull(&t, runs[i].items);
      trial_run_guarded(&t);
      trial_expect(&t, runs[i].items, 0, 0, 0, 0);
      trial_check_never_early(&t, 300 * US);
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
  trial_init_real(&t, "bounded", "cpu", 4 * cpus, 4 * cpus);
  trial_time(&t, "constant", 5 * MS, 0);
  trial_run_guarded(&t);
  trial_expect(&t, 4 * cpus, 0, 0, 0, 0);
  trial_check_never_early(&t, 20 * MS);
  trial_close(&t);
}

/* Pulled items are in flight, and their time runs, while they wait for a thread. */
static void waiting_for_a_thread_counts(void) {
  trial t;
  trial_init_real(&t, "when_all", "cpu", 5, 0);
  trial_time(&t, "constant", 20 * MS, 0);
  trial_pull(&t, 5);
  t.plan.max_threads = 1;
  t.plan.item_timeout_ns = 30 * MS;
  trial_run_guarded(&t);
  CHECK(t.ledger.ended[FW_OK] < 5); /* one on an idle machine; where pulling is slow too, such as under valgrind, more */
  CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_TIMED_OUT], 5);
  trial_close(&t);
}

static void cpu_items_time_out(void) {
  trial t;
  trial_init_real(&t, "bounded", "cpu", 6, 3);
  trial_time(&t, "constant", 100 * SECOND, 0);
  t.plan.item_timeout_ns = 5 * MS;
  trial_run_guarded(&t);
  trial_expect(&t, 0, 0, 6, 0, 0);
  for (int i = 0; i < 6; i++)
    CHECK(t.ledger.finish_ns[i] - t.ledger.start_ns[i] >= 5 * MS);
  trial_close(&t);

  trial_init_real(&t, "for_each", "cpu", 6, 2); /* the first failure stops the others */
  trial_time(&t, "constant", 100 * SECOND, 0);
  t.plan.item_timeout_ns = 5 * MS;
  t.max_failures = 0;
  trial_run_guarded(&t);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_FAILURE);
  CHECK(t.ledger.ended[FW_TIMED_OUT] >= 1);
  CHECK(t.ledger.ended[FW_NOT_STARTED] >= 3);
  trial_close(&t);
}

/* A downstream goes on while we are kept away from it: what it would have done meanwhile is done when we are back. */
static void servers_do_not_wait_for_a_late_wake(void) {
  if (is_short)
    return;
  trial t;
  trial_init_real(&t, "when_all", "service", 60, 0);
  trial_time(&t, "constant", 10 * MS, 0);
  t.tick_sleeps_ns = 450 * MS;
  trial_run_guarded(&t);
  trial_expect(&t, 60, 0, 0, 0, 0);
  trial_check_never_early(&t, 600 * MS);
  CHECK(t.ledger.finish_ns[40] - t.ledger.finish_ns[10] < 150 * MS); /* 300 ms, had it begun each when we came */
  trial_close(&t);
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
    trial_init_real(&t, "bounded", "delay", 10, 5);
    t.plan.timer = timer;
    setrlimit(RLIMIT_NOFILE, &few);
    trial_run(&t);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK_EQUAL(t.rc, -EMFILE);
    trial_close(&t);
    trial_init_real(&t, "bounded", "cpu", 3, 2); /* needs none */
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
    trial_init_real(&t, "bounded", "delay", 10, 5);
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
    trial_check_never_early(&trials[i], 1);
    fw_ledger_close(&trials[i].ledger);
  }
}

/* Runs share nothing. */
static void runs_side_by_side(void) {
  static const char *const actions[] = {"delay", "service", "cpu"};
  enum { RUNS = 6 };
  static trial t[RUNS];
  for (int i = 0; i < RUNS; i++) {
    trial_init_real(&t[i], "bounded", actions[i % 3], 60, 20);
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
    trial_init_real(&t[i], "bounded", "delay", 150, 1);
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
  TEST(servers_do_not_wait_for_a_late_wake);
  TEST(too_few_descriptors_are_an_error);
  TEST(standard_streams_may_be_closed);
  TEST(runs_side_by_side);
  TEST(waits_that_are_over_before_they_begin);
  return check_report();
}
