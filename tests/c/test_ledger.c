/* test_ledger: what is written of items stays with them while the columns grow, move and shrink; the ends are counted. */
#include "check.h"
#include "ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A memory whose blocks always move, and which can refuse to grow or to shrink. */
typedef struct budget {
  uint64_t blocks, growths; /* growths: allowed before the next is refused; UINT64_MAX: all */
  int shrinks;              /* allowed */
} budget;

static void *resize(void *context, void *block, size_t old_bytes, size_t bytes) {
  budget *budget = context;
  if (bytes < old_bytes && !budget->shrinks)
    return NULL;
  if (bytes >= old_bytes && budget->growths != UINT64_MAX && budget->growths-- == 0)
    return NULL;
  char *moved = malloc(bytes);
  memset(moved, 0, bytes);
  if (block != NULL)
    memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  budget->blocks += block == NULL;
  free(block);
  return moved;
}

static void release(void *context, void *block, size_t bytes) {
  (void)bytes;
  ((budget *)context)->blocks--;
  free(block);
}

static budget allowed;
static const fw_memory moving = {.context = &allowed, .resize = resize, .release = release};

static fw_ledger new_ledger(uint64_t total, int samples) {
  allowed = (budget){.growths = UINT64_MAX, .shrinks = 1};
  fw_ledger ledger;
  CHECK_EQUAL(fw_ledger_init(&ledger, &moving, total, 8, samples), 0);
  return ledger;
}

static void close_ledger(fw_ledger *ledger) {
  fw_ledger_close(ledger);
  CHECK_EQUAL(ledger->arena.bytes, 0);
  CHECK_EQUAL(allowed.blocks, 0);
}

static void check_sum(const fw_ledger *ledger) {
  uint64_t sum = 0;
  for (int state = 0; state < FW_STATES; state++)
    sum += ledger->ended[state];
  CHECK_EQUAL(sum, ledger->counts.total);
}

/* Starts and ends items one or more at a time; item i starts at 10 i and ends at 10 i + 5. */
static void run_items(fw_ledger *ledger, uint64_t count, uint64_t step) {
  for (uint64_t i = 0; i < count; i += step) {
    uint64_t n = count - i < step ? count - i : step;
    CHECK_EQUAL(fw_ledger_start(ledger, n, (int64_t)i * 10), 0);
    fw_ledger_finish(ledger, i, n, (int64_t)i * 10, (int64_t)i * 10 + 5, i / step % 3 == 2 ? FW_FAILED : FW_OK);
  }
}

static void check_items(const fw_ledger *ledger, uint64_t count, uint64_t step) {
  for (uint64_t i = 0; i < count; i++) {
    int64_t start_ns = (int64_t)(i / step * step) * 10;
    CHECK_EQUAL(ledger->start_ns[i], start_ns);
    CHECK_EQUAL(ledger->finish_ns[i], start_ns + 5);
    CHECK_EQUAL(ledger->state[i], i / step % 3 == 2 ? FW_FAILED : FW_OK);
  }
}

static void columns_grow_and_shrink(void) {
  static const uint64_t sizes[] = {1, 63, 64, 65, 127, 128, 129, 1000, 5000};
  static const uint64_t steps[] = {1, 7, 300};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t t = 0; t < sizeof steps / sizeof *steps; t++)
      for (int known = 0; known < 2; known++) {
        fw_ledger ledger = new_ledger(known ? sizes[s] : FW_UNKNOWN, 1);
        run_items(&ledger, sizes[s], steps[t]);
        if (!known)
          ledger.counts.total = ledger.counts.started; /* the source has ended */
        CHECK_EQUAL(fw_ledger_seal(&ledger), 0);
        check_items(&ledger, sizes[s], steps[t]);
        check_sum(&ledger);
        CHECK_EQUAL(ledger.block_bytes, sizes[s] * FW_ITEM_BYTES); /* no more than the columns need */
        CHECK_EQUAL(ledger.arena.bytes, ledger.block_bytes);
        CHECK_EQUAL(ledger.ended[FW_NOT_STARTED], 0);
        CHECK_EQUAL(ledger.peak_in_flight, sizes[s] < steps[t] ? sizes[s] : steps[t]);
        close_ledger(&ledger);
      }
}

/* A block that could not shrink holds the same columns, close together. */
static void a_refused_shrink_loses_nothing(void) {
  fw_ledger ledger = new_ledger(FW_UNKNOWN, 1);
  run_items(&ledger, 100, 1);
  allowed.shrinks = 0;
  CHECK_EQUAL(fw_ledger_seal(&ledger), 0);
  CHECK_EQUAL(ledger.capacity, 100);
  CHECK_EQUAL(ledger.block_bytes, 128 * FW_ITEM_BYTES);
  check_items(&ledger, 100, 1);
  close_ledger(&ledger);
}

/* Items that were known or pulled and never started. */
static void what_never_started_is_said_so(void) {
  static const struct {
    uint64_t total, pulled, expected;
  } ends[] = {{100, 0, 100}, {FW_UNKNOWN, 0, 10}, {FW_UNKNOWN, 11, 11}, {FW_UNKNOWN, 900, 900}, {5, 11, 11}, {10, 0, 10}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    fw_ledger ledger = new_ledger(ends[i].total, 1);
    run_items(&ledger, 10, 1);
    if (ends[i].pulled > 0)
      ledger.pulled = ends[i].pulled;
    fw_ledger_stop(&ledger, FW_STOP_CANCEL);
    CHECK_EQUAL(fw_ledger_seal(&ledger), 0);
    CHECK_EQUAL(ledger.counts.total, ends[i].expected);
    CHECK_EQUAL(ledger.ended[FW_NOT_STARTED], ends[i].expected - 10);
    check_sum(&ledger);
    check_items(&ledger, 10, 1);
    for (uint64_t item = 10; item < ends[i].expected; item++) {
      CHECK_EQUAL(ledger.start_ns[item], -1);
      CHECK_EQUAL(ledger.finish_ns[item], -1);
      CHECK_EQUAL(ledger.state[item], FW_NOT_STARTED);
    }
    close_ledger(&ledger);
  }
}

static void nothing_at_all(void) {
  for (int known = 0; known < 2; known++) {
    fw_ledger ledger = new_ledger(known ? 0 : FW_UNKNOWN, 1);
    CHECK_EQUAL(fw_ledger_seal(&ledger), 0);
    CHECK_EQUAL(ledger.counts.total, 0);
    CHECK_EQUAL(ledger.arena.bytes, 0);
    CHECK(ledger.start_ns == NULL);
    check_sum(&ledger);
    close_ledger(&ledger);
  }
}

static void a_summary_needs_the_same_memory_for_any_count(void) {
  fw_ledger ledger = new_ledger(FW_UNKNOWN, 0);
  size_t bytes = ledger.arena.bytes;
  CHECK_EQUAL(bytes, 2 * sizeof(fw_tally));
  for (uint64_t i = 0; i < 1000; i++) {
    CHECK_EQUAL(fw_ledger_start(&ledger, 1000, (int64_t)i), 0);
    fw_ledger_finish(&ledger, i * 1000, 990, (int64_t)i, (int64_t)i + 100, FW_OK);
    fw_ledger_finish(&ledger, i * 1000 + 990, 10, (int64_t)i, (int64_t)i + 7, FW_TIMED_OUT);
  }
  CHECK_EQUAL(fw_ledger_seal(&ledger), 0);
  CHECK_EQUAL(ledger.counts.total, 1000000);
  CHECK_EQUAL(ledger.latency->n, 990000); /* of ok items only */
  CHECK_EQUAL(ledger.latency->min_ns, 100);
  CHECK_EQUAL(ledger.latency->max_ns, 100);
  CHECK_EQUAL(ledger.wait->max_ns, 999);
  CHECK_EQUAL(ledger.arena.peak_bytes, bytes);
  CHECK_EQUAL(ledger.last_finish_ns, 1099);
  check_sum(&ledger);
  close_ledger(&ledger);
}

static void more_failures_than_allowed_stop(void) {
  for (uint64_t most = 0; most < 3; most++) {
    fw_ledger ledger = new_ledger(10, 1);
    ledger.max_failures = most;
    CHECK_EQUAL(fw_ledger_start(&ledger, 5, 0), 0);
    fw_ledger_finish(&ledger, 0, 1, 0, 1, FW_OK);
    fw_ledger_finish(&ledger, 1, 1, 0, 1, FW_CANCELLED);
    CHECK_EQUAL(ledger.stop, FW_RUNNING);
    for (uint64_t i = 0; i < 3; i++) {
      fw_ledger_finish(&ledger, 2 + i, 1, 0, 1, i == 1 ? FW_TIMED_OUT : FW_FAILED);
      CHECK_EQUAL(ledger.stop, i + 1 > most ? FW_STOP_FAILURE : FW_RUNNING);
    }
    close_ledger(&ledger);
  }
}

static void the_strongest_cause_stays(void) {
  fw_ledger ledger = new_ledger(1, 1);
  fw_ledger_stop(&ledger, FW_STOP_TIMEOUT);
  fw_ledger_stop(&ledger, FW_STOP_FAILURE);
  CHECK_EQUAL(ledger.stop, FW_STOP_TIMEOUT);
  fw_ledger_stop(&ledger, FW_STOP_INTERRUPT);
  fw_ledger_stop(&ledger, FW_STOP_CANCEL);
  CHECK_EQUAL(ledger.stop, FW_STOP_INTERRUPT);
  close_ledger(&ledger);
}

static void no_memory(void) {
  fw_ledger ledger;
  for (int samples = 0; samples < 2; samples++) {
    allowed = (budget){.growths = 0, .shrinks = 1};
    CHECK_EQUAL(fw_ledger_init(&ledger, &moving, 10, 8, samples), -ENOMEM);
    CHECK_EQUAL(ledger.arena.bytes, 0);
    fw_ledger_close(&ledger); /* as a caller that does not look would */
    CHECK_EQUAL(allowed.blocks, 0);
  }
  CHECK_EQUAL(fw_ledger_init(&ledger, &moving, UINT64_MAX / 16, 8, 1), -ENOMEM); /* more bytes than a size_t holds */

  /* A start that needs room and gets none has started nothing, and the run may end as it is. */
  ledger = new_ledger(FW_UNKNOWN, 1);
  run_items(&ledger, 64, 1);
  allowed.growths = 0;
  CHECK_EQUAL(fw_ledger_start(&ledger, 1, 99), -ENOMEM);
  CHECK_EQUAL(ledger.counts.started, 64);
  allowed.growths = 0;
  ledger.pulled = 65;
  CHECK_EQUAL(fw_ledger_seal(&ledger), -ENOMEM);
  check_items(&ledger, 64, 1);
  close_ledger(&ledger);
}

int main(void) {
  TEST(columns_grow_and_shrink);
  TEST(a_refused_shrink_loses_nothing);
  TEST(what_never_started_is_said_so);
  TEST(nothing_at_all);
  TEST(a_summary_needs_the_same_memory_for_any_count);
  TEST(more_failures_than_allowed_stop);
  TEST(the_strongest_cause_stays);
  TEST(no_memory);
  return check_report();
}
