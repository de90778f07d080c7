/* test_virtual: whole runs on the virtual clock, whose times are known to the nanosecond. */
#include "check.h"
#include "trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_short;

/* Equal delays: what the published experiment would take without any overhead. */
static void equal_delays_take_the_ideal_time(void) {
  static const struct {
    const char *strategy;
    uint64_t items, limit;
    int64_t ms;
  } runs[] = {{"for_each", 10000, 8, 62500},   {"bounded", 10000, 50, 10000}, {"when_all", 10000, 0, 50},
              {"chunked", 10000, 50, 10000},   {"chunked", 105, 50, 150},     {"bounded", 105, 50, 150},
              {"for_each", 100000, 8, 625000}, {"when_all", 100000, 0, 50},   {"bounded", 7, 50, 50},
              {"chunked", 7, 50, 50},          {"for_each", 5, 1, 250},       {"bounded", 1, 1, 50}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    for (int way = 0; way < 4; way++) {
      trial_context(runs[i].strategy, "delay", way & 1, way >> 1);
      trial t;
      trial_init_way(&t, runs[i].strategy, "delay", way & 1, way >> 1, runs[i].items, runs[i].limit);
      trial_time(&t, "constant", 50 * MS, 0);
      trial_run(&t);
      trial_expect(&t, runs[i].items, 0, 0, 0, 0);
      CHECK_EQUAL(t.ledger.last_finish_ns, runs[i].ms * MS);
      uint64_t width = runs[i].limit == 0 || runs[i].limit > runs[i].items ? runs[i].items : runs[i].limit;
      CHECK_EQUAL(t.ledger.peak_in_flight, width);
      for (uint64_t item = 0; !t.summary && item < runs[i].items; item++) {
        CHECK_EQUAL(t.ledger.start_ns[item], (int64_t)(item / width) * 50 * MS);
        CHECK_EQUAL(t.ledger.finish_ns[item], (int64_t)(item / width + 1) * 50 * MS);
      }
      trial_close(&t);
    }
}

/* Delays 30 10 20 40 10 10 20 at limit 2, done by hand. */
static void different_delays_by_hand(void) {
  static const int64_t delays[] = {30 * MS, 10 * MS, 20 * MS, 40 * MS, 10 * MS, 10 * MS, 20 * MS};
  static const struct {
    const char *strategy;
    int64_t start[7], finish[7];
  } tables[] = {
      {"bounded", {0, 0, 10, 30, 30, 40, 50}, {30, 10, 30, 70, 40, 50, 70}},
      {"for_each", {0, 0, 10, 30, 30, 40, 50}, {30, 10, 30, 70, 40, 50, 70}},
      {"when_all", {0, 0, 0, 0, 0, 0, 0}, {30, 10, 20, 40, 10, 10, 20}},
      {"chunked", {0, 0, 30, 30, 70, 70, 80}, {30, 10, 50, 70, 80, 80, 100}},
  };
  for (int i = 0; i < 4; i++)
    for (int pulled = 0; pulled < 2; pulled++) {
      trial_context(tables[i].strategy, "delay", pulled, 0);
      trial t;
      trial_init_way(&t, tables[i].strategy, "delay", pulled, 0, 7, 2);
      if (pulled) {
        trial_time(&t, "given", 0, 0); /* the time comes with the item */
        t.supply.given_ns = delays;
      } else {
        trial_values(&t, delays, 7);
      }
      trial_run(&t);
      trial_expect(&t, 7, 0, 0, 0, 0);
      trial_expect_columns(&t, MS, tables[i].start, tables[i].finish);
      trial_close(&t);
    }
}

/* Each strategy in its plainest form, one item after the other: when did a slot become free? */
static void predict(const char *strategy, const fw_distribution *time, uint64_t items, uint64_t limit, int64_t *start_ns,
                    int64_t *finish_ns) {
  int64_t *free_ns = calloc(items, sizeof *free_ns), chunk_ns = 0, last_ns = 0;
  for (uint64_t i = 0; i < items; i++) {
    uint64_t slot = 0;
    if (strcmp(strategy, "chunked") == 0) {
      if (i % limit == 0)
        chunk_ns = last_ns;
      start_ns[i] = chunk_ns;
    } else if (strcmp(strategy, "when_all") == 0) {
      start_ns[i] = 0;
    } else {
      for (uint64_t other = 1; other < limit && other < items; other++)
        if (free_ns[other] < free_ns[slot])
          slot = other;
      start_ns[i] = free_ns[slot];
    }
    finish_ns[i] = free_ns[slot] = start_ns[i] + fw_draw(time, i);
    if (finish_ns[i] > last_ns)
      last_ns = finish_ns[i];
  }
  free(free_ns);
}

/* A summary must tell of the same run as its columns would. */
static void check_tally(const fw_tally *tally, const int64_t *from_ns, const int64_t *to_ns, uint64_t items) {
  fw_tally *expected = calloc(1, sizeof *expected);
  for (uint64_t i = 0; i < items; i++)
    fw_tally_add(expected, to_ns[i] - (from_ns == NULL ? 0 : from_ns[i]), 1);
  CHECK_EQUAL(tally->n, expected->n);
  CHECK_EQUAL(tally->min_ns, expected->min_ns);
  CHECK_EQUAL(tally->max_ns, expected->max_ns);
  CHECK_NEAR(tally->mean_ns, expected->mean_ns, 1e-6);
  CHECK_NEAR(tally->squares, expected->squares, 1e-9L * expected->squares + 1);
  CHECK_EQUAL(memcmp(tally->buckets, expected->buckets, sizeof tally->buckets), 0);
  free(expected);
}

static void drawn_delays_follow_the_plain_rule(void) {
  static const struct {
    const char *kind;
    double a, b;
  } times[] = {{"exponential", 5e7, 0}, {"uniform", 0, 20}, {"lognormal", 5e7, 1}, {"constant", 7, 0}};
  uint64_t items = is_short ? 200 : 3000;
  int64_t *start_ns = calloc(2 * items, sizeof *start_ns), *finish_ns = start_ns + items;
  for (int s = 0; s < 4; s++)
    for (size_t k = 0; k < sizeof times / sizeof *times; k++)
      for (int way = 0; way < 4; way++) {
        trial_context(trial_strategies[s], times[k].kind, way & 1, way >> 1);
        trial t;
        trial_init_way(&t, trial_strategies[s], "delay", way & 1, way >> 1, items, 17);
        trial_time(&t, times[k].kind, times[k].a, times[k].b);
        predict(trial_strategies[s], &t.plan.time, items, 17, start_ns, finish_ns);
        trial_run(&t);
        trial_expect(&t, items, 0, 0, 0, 0);
        if (t.summary) {
          check_tally(t.ledger.latency, start_ns, finish_ns, items);
          check_tally(t.ledger.wait, NULL, start_ns, items);
        } else {
          trial_expect_columns(&t, 1, start_ns, finish_ns);
        }
        trial_close(&t);
      }
  free(start_ns);
}

static void service_by_hand(void) {
  static const struct {
    const char *strategy;
    uint64_t limit, capacity, queue;
    int64_t item_timeout;
    int64_t start[6], finish[6];
    int8_t state[6];
  } tables[] = {
      /* Two servers; an item is in flight while it queues. */
      {"bounded", 4, 2, FW_UNKNOWN, FW_NEVER, {0, 0, 0, 0, 10, 10}, {10, 10, 20, 20, 30, 30}, {0}},
      {"when_all", 0, 2, FW_UNKNOWN, FW_NEVER, {0}, {10, 10, 20, 20, 30, 30}, {0}},
      {"chunked", 4, 2, FW_UNKNOWN, FW_NEVER, {0, 0, 0, 0, 20, 20}, {10, 10, 20, 20, 30, 30}, {0}},
      {"bounded", 2, 5, FW_UNKNOWN, FW_NEVER, {0, 0, 10, 10, 20, 20}, {10, 10, 20, 20, 30, 30}, {0}},
      /* One server, one place to wait. */
      {"when_all", 0, 1, 1, FW_NEVER, {0}, {10, 20, 0, 0, 0, 0}, {0, 0, 1, 1, 1, 1}},
      {"when_all", 0, 1, 0, FW_NEVER, {0}, {10, 0, 0, 0, 0, 0}, {0, 1, 1, 1, 1, 1}},
      /* A turned-away item makes room for the next one at once: of the six, five are turned away at 0. */
      {"bounded", 2, 1, 0, FW_NEVER, {0}, {10, 0, 0, 0, 0, 0}, {0, 1, 1, 1, 1, 1}},
      /* Queueing counts: the second is still served when its time is over, the others are still waiting. */
      {"when_all", 0, 1, FW_UNKNOWN, 15, {0}, {10, 15, 15, 15, 15, 15}, {0, 2, 2, 2, 2, 2}},
      /* To end at that very moment is in time. */
      {"when_all", 0, 1, FW_UNKNOWN, 20, {0}, {10, 20, 20, 20, 20, 20}, {0, 0, 2, 2, 2, 2}},
      /* A server that is given up goes on with the next, which has waited less. */
      {"bounded", 2, 1, FW_UNKNOWN, 15, {0, 0, 10, 15, 25, 30}, {10, 15, 25, 30, 40, 45}, {0, 2, 0, 2, 0, 2}},
  };
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (int way = 0; way < 4; way++) {
      static char text[80];
      snprintf(text, sizeof text, "table %d%s%s", (int)i, way & 1 ? ", pulled" : "", way >> 1 ? ", summary" : "");
      check_context(text);
      trial t;
      trial_init_way(&t, tables[i].strategy, "service", way & 1, way >> 1, 6, tables[i].limit);
      trial_time(&t, "constant", 10 * MS, 0);
      t.plan.capacity = tables[i].capacity;
      t.plan.queue = tables[i].queue;
      if (tables[i].item_timeout != FW_NEVER)
        t.plan.item_timeout_ns = tables[i].item_timeout * MS;
      trial_run(&t);
      uint64_t ended[FW_STATES] = {0};
      for (int item = 0; item < 6; item++) {
        ended[tables[i].state[item]]++;
        if (!t.summary)
          CHECK_EQUAL(t.ledger.state[item], tables[i].state[item]);
      }
      trial_expect(&t, ended[FW_OK], ended[FW_FAILED], ended[FW_TIMED_OUT], 0, 0);
      if (!t.summary)
        trial_expect_columns(&t, MS, tables[i].start, tables[i].finish);
      trial_close(&t);
    }
}

/* On the virtual clock CPUs are servers with one queue without an end. */
static void cpus_are_servers(void) {
  trial t;
  trial_init(&t, "bounded", "cpu", 10, 6);
  trial_time(&t, "constant", 30 * MS, 0);
  t.plan.capacity = 2;
  trial_run(&t);
  trial_expect(&t, 10, 0, 0, 0, 0);
  CHECK_EQUAL(t.ledger.last_finish_ns, 150 * MS);
  CHECK_EQUAL(t.ledger.peak_in_flight, 6);
  CHECK_EQUAL(t.outcome.threads, 0);
  trial_close(&t);
}

/* A queue that wraps, grows while wrapped, and servers that grow, in a run long enough for all of it. */
static void a_busy_service_serves_in_order(void) {
  uint64_t items = is_short ? 300 : 3000;
  for (uint64_t capacity = 1; capacity < 100; capacity = capacity * 2 + 1) {
    trial t;
    trial_init(&t, "bounded", "service", items, 130);
    trial_time(&t, "exponential", 1e6, 0);
    t.plan.capacity = capacity;
    trial_run(&t);
    trial_expect(&t, items, 0, 0, 0, 0);
    /* First come, first served: with one server items end in their order. */
    for (uint64_t i = 1; capacity == 1 && i < items; i++)
      CHECK_EQUAL(t.ledger.finish_ns[i], t.ledger.finish_ns[i - 1] + fw_draw(&t.plan.time, i));
    trial_close(&t);
  }
}

/* 5 10 15 10 with 10 each: an item that ends at its time-out is in time. */
static void item_timeouts_count_from_the_start(void) {
  static const int64_t delays[] = {5, 10, 15, 10}, start[] = {0, 0, 5, 10}, finish[] = {5, 10, 15, 20};
  for (int summary = 0; summary < 2; summary++) {
    trial t;
    trial_init(&t, "bounded", "delay", 4, 2);
    trial_values(&t, delays, 4);
    t.plan.item_timeout_ns = 10;
    t.summary = summary;
    trial_run(&t);
    trial_expect(&t, 3, 0, 1, 0, 0);
    if (!summary)
      trial_expect_columns(&t, 1, start, finish);
    else
      CHECK_NEAR(t.ledger.latency->mean_ns, 25 / 3.0L, 1e-12);
    trial_close(&t);
  }
  trial t;
  trial_init(&t, "when_all", "delay", 1000, 0);
  trial_time(&t, "constant", 50 * MS, 0);
  t.plan.item_timeout_ns = 49 * MS;
  trial_run(&t);
  trial_expect(&t, 0, 0, 1000, 0, 0);
  CHECK_EQUAL(t.ledger.last_finish_ns, 49 * MS);
  CHECK_EQUAL(t.ledger.stop, FW_RUNNING);
  trial_close(&t);
}

/* len() may be wrong, or the source may change: what it gave is what counts. */
static void a_source_that_misstates_its_length(void) {
  static const uint64_t told[] = {0, 3, 5, 900};
  for (int i = 0; i < 4; i++) {
    trial t;
    trial_init(&t, "bounded", "delay", told[i], 2);
    trial_pull(&t, 5);
    trial_run(&t);
    trial_expect(&t, 5, 0, 0, 0, 0);
    trial_close(&t);
  }
}

/* A host that wants to let go of items asks how they ended. Here each asks for all before it. */
static int pull_and_look(void *context, fw_run *run, uint64_t may) {
  trial *t = context;
  for (; may > 0; may--) {
    for (uint64_t i = 0; i < t->supply.pulled; i++)
      CHECK_EQUAL(fw_state_of(run, i), t->ledger.finish_ns[i] > 0 ? FW_OK : FW_IN_FLIGHT);
    if (t->supply.pulled == 9)
      return 0;
    t->supply.pulled++;
    if (!fw_offer(run, 0))
      return 1;
  }
  return 1;
}

static void a_host_may_ask_for_states(void) {
  trial t;
  trial_init(&t, "bounded", "delay", 9, 4);
  trial_time(&t, "constant", 10, 0);
  t.plan.host = (fw_host){.context = &t, .pull = pull_and_look};
  CHECK_EQUAL(fw_ledger_init(&t.ledger, &fw_system_memory, 9, 4, 1), 0);
  t.rc = fw_engine_run(&t.plan, &t.ledger, &t.outcome);
  trial_expect(&t, 9, 0, 0, 0, 0);
  fw_ledger_close(&t.ledger);
}

/* About every 50 ms of real time somebody looks whether to go on. */
static void a_tick_interrupts_an_endless_run(void) {
  for (int summary = 0; summary < 2; summary++) {
    trial t;
    trial_init(&t, "for_each", "delay", FW_UNKNOWN, 4);
    trial_time(&t, "exponential", 1000, 0);
    trial_pull(&t, FW_UNKNOWN);
    t.supply.pause_at = EVERY; /* an endless run that is not too long */
    t.supply.pause_ns = 100 * US;
    t.summary = summary;
    t.interrupt_at = 2;
    trial_run(&t);
    CHECK_EQUAL(t.rc, 0);
    CHECK_EQUAL(t.ledger.stop, FW_STOP_INTERRUPT);
    CHECK_EQUAL(t.ticks, 2);
    CHECK(t.ledger.ended[FW_CANCELLED] > 0 && t.ledger.ended[FW_OK] > 0);
    CHECK_EQUAL(t.ledger.ended[FW_NOT_STARTED], 0);
    trial_close(&t);
  }
}

/* 292 years are all that 64 bits of nanoseconds hold. */
static void longer_than_time_itself(void) {
  for (int action = 1; action < 4; action++)
    for (int timeout = 0; timeout < 2; timeout++) {
      trial_context("bounded", trial_actions[action], 0, 0);
      trial t;
      trial_init(&t, "bounded", trial_actions[action], 5, 1);
      trial_time(&t, "constant", (double)FW_LONGEST_NS, 0);
      if (timeout)
        t.plan.item_timeout_ns = FW_LONGEST_NS;
      trial_run(&t);
      CHECK_EQUAL(t.rc, -EOVERFLOW);
      trial_close(&t);
    }
  /* A time-out that no item reaches may lie beyond the end of time: here one waits after 200 years, with 100 to go. */
  static const int64_t times[] = {FW_LONGEST_NS, 0, FW_LONGEST_NS, 0, 1, 1};
  trial t;
  check_context("service");
  trial_init(&t, "bounded", "service", 6, 2);
  trial_values(&t, times, 6);
  t.plan.item_timeout_ns = FW_LONGEST_NS;
  trial_run(&t);
  trial_expect(&t, 6, 0, 0, 0, 0);
  CHECK_EQUAL(t.ledger.last_finish_ns, 2 * FW_LONGEST_NS + 2);
  trial_close(&t);
}

int main(int argc, char **argv) {
  is_short = check_short(argc, argv);
  TEST(equal_delays_take_the_ideal_time);
  TEST(different_delays_by_hand);
  TEST(drawn_delays_follow_the_plain_rule);
  TEST(service_by_hand);
  TEST(cpus_are_servers);
  TEST(a_busy_service_serves_in_order);
  TEST(item_timeouts_count_from_the_start);
  TEST(a_source_that_misstates_its_length);
  TEST(a_host_may_ask_for_states);
  TEST(a_tick_interrupts_an_endless_run);
  TEST(longer_than_time_itself);
  return check_report();
}
