/* test_ends: all the ways in which a run ends before its source is used up, on the virtual clock, and what becomes of its items. */
#include "check.h"
#include "trial.h"

#include <stdlib.h>
#include <string.h>

/* Delays of 5 one after the other under a bound on the whole. */
static void total_timeout_by_hand(void) {
  static const struct {
    uint64_t items;
    int64_t total_timeout;
    uint64_t ok, timed_out, not_started;
    int64_t last;
    int stop;
  } rows[] = {{5, 12, 2, 1, 2, 12, FW_STOP_TIMEOUT}, {5, 10, 2, 0, 3, 10, FW_STOP_TIMEOUT}, {2, 10, 2, 0, 0, 10, FW_RUNNING},
              {5, 25, 5, 0, 0, 25, FW_RUNNING},      {5, 24, 4, 1, 0, 24, FW_STOP_TIMEOUT}, {5, 0, 0, 0, 5, 0, FW_STOP_TIMEOUT},
              {0, 0, 0, 0, 0, 0, FW_RUNNING}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int action = 1; action < 4; action++)
      for (int summary = 0; summary < 2; summary++) {
        trial_context("for_each", trial_actions[action], 0, summary);
        trial t;
        trial_init(&t, "for_each", trial_actions[action], rows[i].items, 1);
        trial_time(&t, "constant", 5, 0);
        t.plan.total_timeout_ns = rows[i].total_timeout;
        t.summary = summary;
        trial_run(&t);
        trial_expect(&t, rows[i].ok, 0, rows[i].timed_out, 0, rows[i].not_started);
        CHECK_EQUAL(t.ledger.last_finish_ns, rows[i].last);
        CHECK_EQUAL(t.ledger.stop, rows[i].stop);
        trial_close(&t);
      }
}

/* However many items are due at the very end of the time, all of them are in time. */
static void all_that_is_due_at_the_total_timeout_is_in_time(void) {
  enum { ITEMS = 40000 };
  int64_t *delays = malloc(ITEMS * sizeof *delays);
  for (int i = 0; i < ITEMS; i++)
    delays[i] = i == 0 ? 20 : 10; /* the first makes the others go to the heap, one by one */
  for (int summary = 0; summary < 2; summary++) {
    trial t;
    trial_init(&t, "when_all", "delay", ITEMS, 0);
    trial_values(&t, delays, ITEMS);
    t.plan.total_timeout_ns = 10;
    t.summary = summary;
    trial_run(&t);
    trial_expect(&t, ITEMS - 1, 0, 1, 0, 0);
    CHECK_EQUAL(t.ledger.stop, FW_STOP_TIMEOUT);
    trial_close(&t);
  }
  free(delays);
}

/* The first failure too many: what is in flight is cancelled at that moment, nothing new starts. */
static void too_many_failures_stop_the_run(void) {
  static const int64_t given[] = {50, -1, 50, -1, 50, 50, 50};
  static const struct {
    uint64_t max_failures, ok, failed, cancelled, not_started, pulled;
    int stop;
  } rows[] = {{0, 0, 1, 1, 5, 2, FW_STOP_FAILURE},
              {1, 0, 2, 2, 3, 4, FW_STOP_FAILURE},
              {2, 5, 2, 0, 0, 7, FW_RUNNING},
              {FW_UNKNOWN, 5, 2, 0, 0, 7, FW_RUNNING}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int known = 0; known < 2; known++) {
      trial t;
      trial_init(&t, "for_each", "delay", known ? 7 : FW_UNKNOWN, 4);
      trial_time(&t, "given", 0, 0);
      trial_pull(&t, 7);
      t.supply.given_ns = given;
      t.max_failures = rows[i].max_failures;
      trial_run(&t);
      /* Of a source of unknown length only what was pulled is known. */
      trial_expect(&t, rows[i].ok, rows[i].failed, 0, rows[i].cancelled, known ? rows[i].not_started : 0);
      CHECK_EQUAL(t.supply.pulled, rows[i].pulled);
      CHECK_EQUAL(t.ledger.stop, rows[i].stop);
      trial_close(&t);
    }
}

/* Those that wait in a queue reach their time-out at the very moment at which the first of them stops the run: all are timed out. */
static void timeouts_of_one_moment_go_together(void) {
  for (int way = 0; way < 4; way++) {
    trial_context("when_all", "service", way & 1, way >> 1);
    trial t;
    trial_init_way(&t, "when_all", "service", way & 1, way >> 1, 4, 0);
    trial_time(&t, "constant", 10, 0);
    t.plan.item_timeout_ns = 15;
    t.max_failures = 0;
    trial_run(&t);
    trial_expect(&t, 1, 0, 3, 0, 0);
    CHECK_EQUAL(t.ledger.stop, FW_STOP_FAILURE);
    CHECK_EQUAL(t.ledger.last_finish_ns, 15);
    trial_close(&t);
  }
}

/* Timed-out items are failures, too; and turned-away ones stop an int source as they stop a pulled one. */
static void failures_of_each_kind_count(void) {
  trial t;
  trial_init(&t, "bounded", "delay", 10, 3);
  trial_time(&t, "constant", 50, 0);
  t.plan.item_timeout_ns = 20;
  t.max_failures = 0;
  trial_run(&t);
  trial_expect(&t, 0, 0, 3, 0, 7);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_FAILURE);
  trial_close(&t);
  for (int way = 0; way < 4; way++) {
    trial_context("when_all", "service", way & 1, way >> 1);
    trial_init_way(&t, "when_all", "service", way & 1, way >> 1, 100, 0);
    t.total = 100;
    trial_time(&t, "constant", 50, 0);
    t.plan.queue = 1;
    t.max_failures = 0;
    trial_run(&t);
    trial_expect(&t, 0, 1, 0, 2, 97);
    CHECK_EQUAL(t.ledger.last_finish_ns, 0);
    trial_close(&t);
  }
}

static void cancelled_before_the_start(const char *strategy, const char *action, int pulled, int summary) {
  trial t;
  trial_init_way(&t, strategy, action, pulled, summary, 100, 4);
  trial_time(&t, "constant", 50, 0);
  t.total = 100;
  atomic_store(&t.cancel, 1);
  trial_run(&t);
  trial_expect(&t, 0, 0, 0, 0, 100);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_CANCEL);
  CHECK_EQUAL(t.ledger.last_finish_ns, 0);
  CHECK_EQUAL(t.supply.calls, 0); /* the source is not even asked */
  trial_close(&t);
}

/* The flag is seen before the item that was just pulled starts. */
static void cancelled_by_the_source(const char *strategy, const char *action, int pulled, int summary) {
  if (!pulled)
    return;
  trial t;
  trial_init_way(&t, strategy, action, pulled, summary, FW_UNKNOWN, 4); /* endless */
  trial_time(&t, "constant", 50, 0);
  t.supply.cancel_at = 10;
  trial_run(&t);
  CHECK_EQUAL(t.rc, 0);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_CANCEL);
  CHECK_EQUAL(t.supply.pulled, 11);
  CHECK_EQUAL(t.ledger.counts.started, 10);
  CHECK_EQUAL(t.ledger.ended[FW_NOT_STARTED], 1);
  CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_CANCELLED], 10);
  if (strcmp(action, "noop") == 0)
    CHECK_EQUAL(t.ledger.ended[FW_CANCELLED], 0);
  else
    CHECK(t.ledger.ended[FW_CANCELLED] > 0);
  trial_close(&t);
}

/* Whoever cancels when all is done comes too late, even where the source has yet to say that it has ended. */
static void cancelled_after_the_end(void) {
  for (int summary = 0; summary < 2; summary++) {
    trial t;
    trial_init_way(&t, "bounded", "noop", 1, summary, 10, 4);
    t.supply.cancel_at = 10;
    trial_run(&t);
    trial_expect(&t, 10, 0, 0, 0, 0);
    CHECK_EQUAL(t.ledger.stop, FW_RUNNING);
    trial_close(&t);
  }
}

static void a_failing_source_stops_the_run(const char *strategy, const char *action, int pulled, int summary) {
  if (!pulled)
    return;
  for (uint64_t raise_at = 0; raise_at < 10; raise_at += 3) {
    trial t;
    trial_init_way(&t, strategy, action, pulled, summary, 10, 4);
    trial_time(&t, "constant", 50, 0);
    t.supply.raise_at = raise_at;
    t.total = 10;
    trial_run(&t);
    CHECK_EQUAL(t.rc, 0);
    CHECK_EQUAL(t.ledger.stop, FW_STOP_SOURCE);
    CHECK_EQUAL(t.ledger.counts.started, raise_at);
    CHECK_EQUAL(t.ledger.ended[FW_NOT_STARTED], 10 - raise_at);
    trial_close(&t);
  }
}

/* Where all outcomes are kept, what is in flight when the source fails runs to its end, queued or not. */
static void a_failing_source_lets_the_others_finish(const char *strategy, const char *action, int pulled, int summary) {
  if (!pulled)
    return;
  trial t;
  trial_init_way(&t, strategy, action, pulled, summary, 10, 4);
  trial_time(&t, "constant", 50, 0);
  t.supply.raise_at = 3;
  t.total = 10;
  t.plan.drains = 1;
  trial_run(&t);
  trial_expect(&t, 3, 0, 0, 0, 7);
  CHECK_EQUAL(t.ledger.stop, FW_STOP_SOURCE);
  int serves = strcmp(action, "cpu") == 0 || strcmp(action, "service") == 0; /* one server */
  CHECK_EQUAL(t.ledger.last_finish_ns, serves ? 150 : strcmp(action, "delay") == 0 ? 50 : 0);
  trial_close(&t);
}

/* What is left to finish ends at the run's time-out, or when somebody cancels it after all. */
static void finishing_has_an_end_too(void) {
  for (int cancels = 0; cancels < 2; cancels++)
    for (int summary = 0; summary < 2; summary++) {
      trial t;
      trial_init_way(&t, "bounded", "delay", 1, summary, 10, 4);
      trial_time(&t, "constant", 50, 0);
      t.supply.raise_at = 3;
      t.plan.drains = 1;
      t.plan.total_timeout_ns = 20;
      if (cancels)
        t.supply.cancel_at = 3;
      trial_run(&t);
      trial_expect(&t, 0, 0, 0, 3, 0);
      CHECK_EQUAL(t.ledger.stop, FW_STOP_SOURCE);
      CHECK_EQUAL(t.ledger.last_finish_ns, cancels ? 0 : 20);
      trial_close(&t);
    }
}

/* Ctrl-C while the source's own code runs is no failure of the source: nothing is left to finish. */
static void an_interrupted_source(void) {
  for (int drains = 0; drains < 2; drains++) {
    trial t;
    trial_init_way(&t, "bounded", "delay", 1, 0, 10, 4);
    trial_time(&t, "constant", 50, 0);
    t.supply.raise_at = 3;
    t.supply.raises = FW_PULL_INTERRUPTED;
    t.plan.drains = drains;
    trial_run(&t);
    trial_expect(&t, 0, 0, 0, 3, 0);
    CHECK_EQUAL(t.ledger.stop, FW_STOP_INTERRUPT);
    trial_close(&t);
  }
}

static void an_empty_source_is_an_empty_run(const char *strategy, const char *action, int pulled, int summary) {
  trial t;
  trial_init_way(&t, strategy, action, pulled, summary, 0, 4);
  trial_time(&t, "constant", 50, 0);
  trial_run(&t);
  trial_expect(&t, 0, 0, 0, 0, 0);
  CHECK_EQUAL(t.ledger.stop, FW_RUNNING);
  CHECK_EQUAL(t.ledger.last_finish_ns, 0);
  CHECK_EQUAL(t.ledger.peak_in_flight, 0);
  trial_close(&t);
}

static void no_duration_at_all(const char *strategy, const char *action, int pulled, int summary) {
  trial t;
  trial_init_way(&t, strategy, action, pulled, summary, 1000, 4);
  trial_run(&t);
  trial_expect(&t, 1000, 0, 0, 0, 0);
  CHECK_EQUAL(t.ledger.last_finish_ns, 0);
  trial_close(&t);
}

static void ways_to_be_empty_cancelled_or_failed(void) {
  trial_each_way(an_empty_source_is_an_empty_run);
  trial_each_way(no_duration_at_all);
  trial_each_way(cancelled_before_the_start);
  trial_each_way(cancelled_by_the_source);
  trial_each_way(a_failing_source_stops_the_run);
  trial_each_way(a_failing_source_lets_the_others_finish);
}

int main(void) {
  TEST(total_timeout_by_hand);
  TEST(all_that_is_due_at_the_total_timeout_is_in_time);
  TEST(too_many_failures_stop_the_run);
  TEST(timeouts_of_one_moment_go_together);
  TEST(failures_of_each_kind_count);
  TEST(ways_to_be_empty_cancelled_or_failed);
  TEST(cancelled_after_the_end);
  TEST(finishing_has_an_end_too);
  TEST(an_interrupted_source);
  return check_report();
}
