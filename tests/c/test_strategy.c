/* test_strategy: the rule of each strategy as a table, then against the rule said another way, on whole walks of a run. */
#include "check.h"
#include "strategy.h"

#include <stdio.h>
#include <string.h>

static const fw_strategy *strategy_named(const char *name) {
  for (int i = 0; i < fw_strategy_count; i++)
    if (strcmp(fw_strategies[i].name, name) == 0)
      return &fw_strategies[i];
  return NULL;
}

#define NO FW_UNKNOWN

static const struct row {
  const char *strategy;
  uint64_t total, started, finished, limit, may;
} rows[] = {
    /* A free slot is a start. */
    {"for_each", 100, 0, 0, 8, 8},
    {"for_each", 100, 8, 0, 8, 0},
    {"for_each", 100, 8, 3, 8, 3},
    {"for_each", 100, 99, 99, 8, 1},
    {"for_each", 100, 100, 95, 8, 0},
    {"for_each", 100, 100, 100, 8, 0},
    {"for_each", 3, 0, 0, 8, 3},
    {"for_each", 0, 0, 0, 8, 0},
    {"for_each", 100, 5, 4, 1, 0},
    {"for_each", 100, 5, 5, 1, 1},
    {"bounded", 100, 0, 0, 50, 50},
    {"bounded", 100, 60, 20, 50, 10},
    {"bounded", 100, 95, 60, 50, 5},
    /* An unknown total: the source is asked for as many as there are free slots. */
    {"for_each", NO, 0, 0, 8, 8},
    {"for_each", NO, 1000, 997, 8, 5},
    {"bounded", NO, NO - 3, NO - 4, 8, 3},
    /* The limit was lowered below what is in flight: nothing starts until enough have ended. */
    {"for_each", 100, 20, 10, 4, 0},
    {"for_each", 100, 20, 16, 4, 0},
    {"for_each", 100, 20, 17, 4, 1},
    {"bounded", NO, 20, 12, 8, 0},
    {"bounded", NO, 20, 13, 8, 1},
    /* A limit nothing reaches. */
    {"bounded", 100, 10, 0, NO, 90},
    {"bounded", NO, 10, 0, NO, NO - 10},
    /* All at once, the rest after a batch of them. */
    {"when_all", 100, 0, 0, NO, 100},
    {"when_all", 100, 64, 3, NO, 36},
    {"when_all", 100, 100, 0, NO, 0},
    {"when_all", 0, 0, 0, NO, 0},
    {"when_all", NO, 7, 2, NO, NO - 7},
    /* A full chunk, once the last one is finished. */
    {"chunked", 105, 0, 0, 50, 50},
    {"chunked", 105, 50, 0, 50, 0},
    {"chunked", 105, 50, 49, 50, 0},
    {"chunked", 105, 50, 50, 50, 50},
    {"chunked", 105, 100, 100, 50, 5},
    {"chunked", 105, 105, 100, 50, 0},
    {"chunked", 105, 105, 105, 50, 0},
    {"chunked", 7, 0, 0, 50, 7},
    {"chunked", 100, 100, 100, 50, 0},
    {"chunked", 3, 2, 2, 1, 1},
    {"chunked", 3, 2, 1, 1, 0},
    /* A chunk that is being started may go on, even while some of its own items have ended. */
    {"chunked", 105, 10, 0, 50, 40},
    {"chunked", 105, 10, 10, 50, 40},
    {"chunked", 105, 70, 50, 50, 30},
    {"chunked", 105, 70, 65, 50, 30},
    {"chunked", 105, 103, 101, 50, 2},
    {"chunked", NO, 0, 0, 50, 50},
    {"chunked", NO, 70, 50, 50, 30},
    {"chunked", NO, 100, 99, 50, 0},
    {"chunked", NO, 100, 100, 50, 50},
};

static void table(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct row *row = &rows[i];
    char text[128];
    snprintf(text, sizeof text, "%s(total %lld, started %lld, finished %lld, limit %lld)", row->strategy, (long long)row->total,
             (long long)row->started, (long long)row->finished, (long long)row->limit);
    check_context(text);
    const fw_strategy *strategy = strategy_named(row->strategy);
    if (CHECK(strategy != NULL))
      CHECK_EQUAL(fw_admit(strategy, (fw_counts){row->total, row->started, row->finished, row->limit}), row->may);
  }
}

static void list(void) {
  static const char *const names[] = {"for_each", "when_all", "bounded", "chunked"};
  CHECK_EQUAL(fw_strategy_count, 4);
  for (int i = 0; i < fw_strategy_count; i++) {
    check_context(names[i]);
    CHECK(strcmp(fw_strategies[i].name, names[i]) == 0);
    CHECK_EQUAL(fw_strategies[i].takes_limit, strcmp(names[i], "when_all") != 0);
    CHECK_EQUAL(fw_strategies[i].reads_ahead, strcmp(names[i], "when_all") == 0);
    CHECK_EQUAL(fw_strategies[i].has_window, i == 0 || i == 2);
  }
}

/* The rules said once more, for one item at a time: may item `index`, the next one, start? */
static int item_may_start(const char *name, uint64_t index, uint64_t finished, uint64_t limit) {
  if (strcmp(name, "when_all") == 0)
    return 1;
  if (strcmp(name, "chunked") == 0)
    return finished >= index / limit * limit; /* everything before its chunk */
  return index < finished + limit;
}

static uint64_t count_startable(const char *name, fw_counts c) {
  uint64_t next = c.started;
  while (next < c.total && item_may_start(name, next, c.finished, c.limit))
    next++;
  return next - c.started;
}

/* Random runs: items start and end as they like, but never more than may; every run comes to its end. */
static void walks(void) {
  random_source random = {1};
  for (int walk = 0; walk < 400; walk++) {
    const fw_strategy *strategy = &fw_strategies[walk % fw_strategy_count];
    uint64_t limit = strategy->takes_limit ? 1 + random_below(&random, 12) : NO;
    fw_counts c = {.total = random_below(&random, 80), .limit = limit};
    char text[96];
    snprintf(text, sizeof text, "walk %d: %s, limit %lld, total %lld", walk, strategy->name, (long long)limit,
             (long long)c.total);
    check_context(text);
    while (c.finished < c.total) {
      uint64_t may = fw_admit(strategy, c), in_flight = c.started - c.finished;
      CHECK_EQUAL(may, count_startable(strategy->name, c));
      if (!CHECK(may > 0 || in_flight > 0))
        return; /* a run that hangs */
      if (may > 0 && (in_flight == 0 || random_below(&random, 2)))
        c.started += 1 + random_below(&random, may);
      else
        c.finished += 1 + random_below(&random, in_flight);
      CHECK(limit == NO || c.started - c.finished <= limit);
    }
    CHECK_EQUAL(fw_admit(strategy, c), 0);
  }
}

int main(void) {
  TEST(table);
  TEST(list);
  TEST(walks);
  return check_report();
}
