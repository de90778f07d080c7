/* delay: each item ends its drawn time after it starts; nothing runs in between. */
#include "../action.h"

/* Where the columns or the deadline itself tell when an item started, its id is its index; elsewhere it is a slot. */
static int uses_slots(const fw_run *run) { return run->ledger->latency != NULL && !run->time.kind->constant; }

static int delay_start(fw_run *run, uint64_t first, uint64_t count, int64_t now_ns) {
  int64_t deadline_ns;
  if (run->time.kind->constant) {
    int rc = fw_deadline(run, now_ns, fw_draw(&run->time, first), now_ns, &first, &deadline_ns);
    return rc < 0 ? rc : fw_deadlines_push(&run->deadlines, first, count, deadline_ns);
  }
  for (uint64_t index = first; index < first + count; index++) {
    uint64_t id = index;
    int rc = uses_slots(run) ? fw_slots_take(&run->slots, now_ns, &id) : 0;
    if (rc == 0)
      rc = fw_deadline(run, now_ns, fw_draw(&run->time, index), now_ns, &id, &deadline_ns);
    if (rc == 0)
      rc = fw_deadlines_push(&run->deadlines, id, 1, deadline_ns);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int64_t delay_next(const fw_run *run, int64_t slack_ns) { return fw_deadlines_wake(&run->deadlines, slack_ns); }

/* Where columns are kept they tell when an item started, and nobody else needs to. */
static int64_t started_at(fw_run *run, uint64_t id, int64_t deadline_ns) {
  if (run->ledger->latency == NULL)
    return 0;
  if (uses_slots(run))
    return fw_slots_give(&run->slots, id);
  int64_t wait_ns = fw_draw(&run->time, id);
  return deadline_ns - (wait_ns < run->plan->item_timeout_ns ? wait_ns : run->plan->item_timeout_ns);
}

static void end_range(fw_run *run, fw_range due, int64_t now_ns) {
  uint64_t first = due.first & ~FW_LATE;
  int state = due.first & FW_LATE ? FW_TIMED_OUT : FW_OK;
  /* Slots are not in the order of their items, so a range of them has no one start. */
  uint64_t step = uses_slots(run) ? 1 : due.count;
  for (uint64_t id = first; id < first + due.count; id += step)
    fw_ledger_finish(run->ledger, id, step, started_at(run, id, due.deadline_ns), now_ns, state);
}

/* Some are popped before the first is ended, so that the memory they end in is on its way: random waits end all over it. */
static int delay_settle(fw_run *run, int64_t due_ns) {
  fw_range due[FW_STAMP_EVERY];
  uint64_t ended = 0;
  int rc, count;
  do {
    for (count = 0; count < FW_STAMP_EVERY; count++) {
      rc = fw_deadlines_pop(&run->deadlines, due_ns, &due[count]);
      if (rc <= 0)
        break;
      fw_ledger_expect(run->ledger, due[count].first & ~FW_LATE);
    }
    int64_t now_ns = fw_clock_now(&run->clock);
    for (int i = 0; i < count; i++) {
      end_range(run, due[i], now_ns);
      ended += due[i].count;
    }
  } while (rc > 0 && ended < FW_SETTLE_AT_MOST);
  return rc < 0 ? rc : 0;
}

static int delay_open(fw_run *run) {
  run->slots.arena = &run->ledger->arena;
  return 0;
}

static void delay_close(fw_run *run) { fw_slots_close(&run->slots); }

const fw_action fw_action_delay = {
    .name = "delay",
    .start = delay_start,
    .next = delay_next,
    .settle = delay_settle,
    .open = delay_open,
    .close = delay_close,
};
