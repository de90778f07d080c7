/* test_faults: each allocation of whole runs fails in turn. The run says so, and gives back all it took. */
#include "check.h"
#include "trial.h"

#include <errno.h>
#include <stdio.h>

static int is_short;

typedef struct shape {
  const char *strategy, *action, *kind; /* kind of the times, about `ns` long each */
  double ns;
  uint64_t items, limit; /* more than the first size of every growing block */
  uint64_t capacity;
  int64_t item_timeout_ns; /* 0: none */
  int known, pulled, summary, is_virtual, timer;
} shape;

static const shape shapes[] = {
    {"bounded", "delay", "constant", 1e6, 300, 100, 1, 0, 1, 0, 0, 1, FW_TIMER_BEST},
    {"bounded", "delay", "exponential", 1e6, 400, 200, 1, 9 * MS, 0, 1, 0, 1, FW_TIMER_BEST},
    {"when_all", "delay", "exponential", 1e6, 400, 0, 1, 0, 1, 0, 1, 1, FW_TIMER_BEST},
    {"for_each", "noop", "constant", 0, 300, 8, 1, 0, 0, 1, 0, 1, FW_TIMER_BEST},
    {"bounded", "service", "exponential", 1e6, 400, 200, 40, 0, 1, 0, 0, 1, FW_TIMER_BEST},
    {"for_each", "service", "exponential", 1e6, 400, 200, 40, 5 * MS, 0, 1, 1, 1, FW_TIMER_BEST},
    {"chunked", "cpu", "uniform", 1e6, 300, 90, 20, 0, 1, 0, 0, 1, FW_TIMER_BEST},
    {"bounded", "delay", "exponential", 2e5, 300, 150, 1, 0, 1, 0, 0, 0, FW_TIMER_BEST},
    {"bounded", "delay", "exponential", 2e5, 200, 100, 1, 0, 0, 1, 1, 0, FW_TIMER_UV},
    {"chunked", "delay", "constant", 2e5, 200, 70, 1, 0, 0, 1, 0, 0, FW_TIMER_BEST},
    {"bounded", "service", "exponential", 2e5, 200, 100, 20, 0, 0, 1, 0, 0, FW_TIMER_BEST},
    {"bounded", "service", "exponential", 2e5, 200, 100, 20, 0, 1, 0, 1, 0, FW_TIMER_BEST},
    {"bounded", "cpu", "constant", 1e4, 100, 4, 1, 0, 1, 0, 0, 0, FW_TIMER_BEST},
    {"for_each", "cpu", "constant", 1e4, 100, 4, 1, 0, 0, 1, 0, 0, FW_TIMER_BEST},
    {"when_all", "cpu", "constant", 1e4, 100, 0, 1, 0, 0, 1, 1, 0, FW_TIMER_BEST},
};

/* Gives how many allocations failed. */
static uint64_t run_with_fault(const shape *shape, uint64_t fail_at, int and_after) {
  trial t;
  trial_init(&t, shape->strategy, shape->action, shape->known ? shape->items : FW_UNKNOWN, shape->limit);
  trial_time(&t, shape->kind, shape->ns, 2 * shape->ns);
  if (shape->pulled)
    trial_pull(&t, shape->items);
  if (shape->item_timeout_ns > 0)
    t.plan.item_timeout_ns = shape->item_timeout_ns;
  t.plan.capacity = shape->capacity;
  t.plan.is_virtual = shape->is_virtual;
  t.plan.timer = shape->timer;
  t.plan.max_threads = 8;
  t.summary = shape->summary;
  t.ration.fail_at = fail_at;
  t.ration.fail_after = and_after;
  trial_run(&t);
  /* That the columns cannot shrink at the end is no failure: they stay as large as they are. */
  CHECK_EQUAL(t.rc, t.ration.refused > t.ration.refused_shrinks ? -ENOMEM : 0);
  if (t.rc == 0)
    CHECK_EQUAL(t.ledger.ended[FW_OK] + t.ledger.ended[FW_TIMED_OUT], shape->items);
  uint64_t refused = t.ration.refused;
  trial_close(&t);
  return refused;
}

static void each_allocation_fails(void) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int and_after = 0; and_after < 2; and_after++) {
      uint64_t at = 1;
      for (; at < 1000; at++) {
        static char text[120];
        snprintf(text, sizeof text, "shape %d: %s, %s, allocation %d%s", (int)i, shapes[i].strategy, shapes[i].action, (int)at,
                 and_after ? " and those after it" : "");
        check_context(text);
        if (run_with_fault(&shapes[i], at, and_after) == 0)
          break; /* there is no such allocation any more */
        if (is_short && at > 2)
          at += 3;
      }
      CHECK(at > 1 && at < 1000);
    }
}

/* While the source is asked for its end the settling thread is on its own: when it gets no memory, it must leave alone what it may
   have moved in part. */
static void the_settling_thread_gets_no_memory(void) {
  static char text[80];
  uint64_t at = 1, refused = 1;
  for (; refused > 0 && at < 1000; at++) {
    snprintf(text, sizeof text, "allocation %d", (int)at);
    check_context(text);
    trial t;
    trial_init(&t, "bounded", "delay", FW_UNKNOWN, 200);
    trial_time(&t, "uniform", 0, 3e6);
    trial_pull(&t, 200);
    t.plan.is_virtual = 0;
    t.supply.pause_at = 200;
    t.supply.pause_ns = 5 * MS;
    t.ration.fail_at = at;
    trial_run(&t);
    CHECK_EQUAL(t.rc, t.ration.refused > t.ration.refused_shrinks ? -ENOMEM : 0);
    refused = t.ration.refused;
    trial_close(&t);
    if (is_short)
      at += 2;
  }
  CHECK(at > 5 && at < 1000);
}

/* Threads at work hear of a failure of the engine, which needs no more of what they do. */
static void work_ends_with_a_failed_run(void) {
  trial t;
  trial_init(&t, "when_all", "cpu", FW_UNKNOWN, 0);
  trial_time(&t, "constant", 1000.0 * SECOND, 0);
  trial_pull(&t, 100); /* more than the columns have room for at first */
  t.plan.is_virtual = 0;
  t.plan.max_threads = 3;
  t.supply.pause_at = 64; /* so that they are at work by then */
  t.supply.pause_ns = 20 * MS;
  t.ration.fail_at = 3; /* the columns, the threads, the columns again */
  trial_run(&t);
  CHECK_EQUAL(t.rc, -ENOMEM);
  CHECK_EQUAL(t.ration.refused, 1);
  trial_close(&t);
}

int main(int argc, char **argv) {
  is_short = check_short(argc, argv);
  TEST(trial_warm_up);
  TEST(each_allocation_fails);
  TEST(the_settling_thread_gets_no_memory);
  TEST(work_ends_with_a_failed_run);
  return check_report();
}
