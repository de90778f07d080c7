/* trial: fills in a plan, runs it and looks at the ledger from outside. */
#include "trial.h"

#include "action.h"
#include "check.h"
#include "order.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int is_refused(ration *ration, int shrinks) {
  ration->requests++;
  int refused =
      ration->fail_at > 0 && (ration->fail_after ? ration->requests >= ration->fail_at : ration->requests == ration->fail_at);
  ration->refused += (uint64_t)refused;
  ration->refused_shrinks += (uint64_t)(refused && shrinks);
  return refused;
}

/* Always moves the block, so that an address kept across a growth is found out. */
static void *ration_resize(void *context, void *block, size_t old_bytes, size_t bytes) {
  ration *ration = context;
  if (is_refused(ration, bytes < old_bytes))
    return NULL;
  char *moved = calloc(1, bytes);
  if (block != NULL)
    memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  free(block);
  ration->blocks += block == NULL;
  ration->bytes += bytes - old_bytes;
  return moved;
}

static void ration_release(void *context, void *block, size_t bytes) {
  ration *ration = context;
  ration->blocks--;
  ration->bytes -= bytes;
  free(block);
}

static void sleep_ns(int64_t ns) {
  struct timespec left = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
  while (nanosleep(&left, &left) < 0)
    ;
}

static int tick(void *context, uint64_t done, uint64_t failed) {
  trial *trial = context;
  CHECK(pthread_equal(pthread_self(), trial->caller));
  CHECK(failed <= done);
  if (trial->ticks++ == 0 && trial->tick_sleeps_ns > 0)
    sleep_ns(trial->tick_sleeps_ns);
  return trial->interrupt_at > 0 && trial->ticks >= trial->interrupt_at;
}

static int pull(void *context, fw_run *run, uint64_t may) {
  trial *trial = context;
  supply *supply = &trial->supply;
  supply->calls++;
  supply->asked_after_end |= supply->ends > 0;
  supply->on_another_thread |= !pthread_equal(pthread_self(), trial->caller);
  for (; may > 0; may--) {
    uint64_t index = supply->pulled;
    if (supply->pause_ns > 0 && (supply->pause_at == index || supply->pause_at == EVERY))
      sleep_ns(supply->pause_ns);
    if (index == supply->cancel_at)
      atomic_store(&trial->cancel, 1);
    if (index == supply->raise_at)
      return supply->raises == 0 ? FW_PULL_FAILED : supply->raises;
    if (index == supply->length) {
      supply->ends++;
      return 0;
    }
    supply->pulled++;
    if (!fw_offer(run, supply->given_ns == NULL ? 0 : supply->given_ns[index]))
      return 1;
  }
  return 1;
}

void trial_init(trial *trial, const char *strategy, const char *action, uint64_t total, uint64_t limit) {
  memset(trial, 0, sizeof *trial);
  trial->plan = (fw_plan){.item_timeout_ns = FW_NEVER,
                          .total_timeout_ns = FW_NEVER,
                          .capacity = 1,
                          .queue = FW_UNKNOWN,
                          .max_threads = 64,
                          .is_virtual = 1};
  for (int i = 0; i < fw_strategy_count; i++)
    if (strcmp(fw_strategies[i].name, strategy) == 0)
      trial->plan.strategy = &fw_strategies[i];
  for (int i = 0; fw_actions[i] != NULL; i++)
    if (strcmp(fw_actions[i]->name, action) == 0)
      trial->plan.action = fw_actions[i];
  CHECK(trial->plan.strategy != NULL && trial->plan.action != NULL);
  trial->total = total;
  trial->limit = limit == 0 ? FW_UNKNOWN : limit;
  trial->max_failures = FW_UNKNOWN;
  trial->supply = (supply){.length = 0, .raise_at = FW_UNKNOWN, .cancel_at = FW_UNKNOWN, .pause_at = FW_UNKNOWN};
  trial_time(trial, "constant", 0, 0);
}

void trial_time(trial *trial, const char *kind, double a, double b) {
  trial->plan.time = (fw_distribution){.seed = 42, .a = a, .b = b};
  for (int i = 0; i < fw_distribution_kind_count; i++)
    if (strcmp(fw_distribution_kinds[i].name, kind) == 0)
      trial->plan.time.kind = &fw_distribution_kinds[i];
  CHECK(trial->plan.time.kind != NULL);
}

void trial_values(trial *trial, const int64_t *values_ns, uint64_t count) {
  trial_time(trial, "per_item", 0, 0);
  trial->plan.time.values = values_ns;
  trial->plan.time.count = count;
}

void trial_pull(trial *trial, uint64_t length) {
  trial->pulled = 1;
  trial->supply.length = length;
}

/* The most that overlapped, where an item that ends makes room for one that starts at the same moment. */
static uint64_t overlap(const fw_ledger *ledger) {
  uint64_t started = ledger->counts.started, ended = 0, most = 0;
  if (started == 0)
    return 0;
  int64_t *finish_ns = malloc(2 * started * sizeof *finish_ns);
  memcpy(finish_ns, ledger->finish_ns, started * sizeof *finish_ns);
  fw_sort_ns(finish_ns, finish_ns + started, started);
  for (uint64_t i = 0; i < started; i++) {
    while (ended < started && finish_ns[ended] <= ledger->start_ns[i])
      ended++;
    if (i + 1 > ended && i + 1 - ended > most)
      most = i + 1 - ended;
  }
  free(finish_ns);
  return most;
}

static void check_columns(const fw_ledger *ledger, uint64_t limit) {
  uint64_t ended[FW_STATES] = {0};
  int64_t last_ns = 0;
  for (uint64_t i = 0; i < ledger->counts.total; i++) {
    if (!CHECK(ledger->state[i] >= 0 && ledger->state[i] < FW_STATES))
      return;
    ended[ledger->state[i]]++;
    if (ledger->state[i] == FW_NOT_STARTED) {
      CHECK(i >= ledger->counts.started);
      CHECK_EQUAL(ledger->start_ns[i], -1);
      CHECK_EQUAL(ledger->finish_ns[i], -1);
      continue;
    }
    CHECK(ledger->start_ns[i] >= (i == 0 ? 0 : ledger->start_ns[i - 1])); /* in source order */
    CHECK(ledger->finish_ns[i] >= ledger->start_ns[i]);
    if (ledger->finish_ns[i] > last_ns)
      last_ns = ledger->finish_ns[i];
  }
  for (int state = 0; state < FW_STATES; state++)
    CHECK_EQUAL(ended[state], ledger->ended[state]);
  CHECK_EQUAL(ledger->last_finish_ns, last_ns);
  uint64_t most = overlap(ledger);
  CHECK(most <= ledger->peak_in_flight);
  CHECK(most <= limit);
}

static void check_run_holds(const trial *trial) {
  const fw_ledger *ledger = &trial->ledger;
  uint64_t sum = 0;
  for (int state = 0; state < FW_STATES; state++)
    sum += ledger->ended[state];
  CHECK_EQUAL(sum, ledger->counts.total);
  CHECK_EQUAL(ledger->counts.finished, ledger->counts.started);
  CHECK(ledger->counts.started <= ledger->pulled);
  CHECK(ledger->peak_in_flight <= trial->limit);
  CHECK_EQUAL(ledger->arena.bytes, trial->ration.bytes);
  CHECK(ledger->stop != FW_RUNNING || ledger->ended[FW_CANCELLED] + ledger->ended[FW_NOT_STARTED] == 0);
  if (trial->pulled) {
    CHECK_EQUAL(ledger->pulled, trial->supply.pulled);
    CHECK(!trial->supply.asked_after_end);
    CHECK(!trial->supply.on_another_thread);
    if (ledger->stop == FW_RUNNING)
      CHECK_EQUAL(trial->supply.ends, 1);
  }
  if (trial->summary) {
    CHECK_EQUAL(ledger->latency->n, ledger->ended[FW_OK]);
    CHECK_EQUAL(ledger->wait->n, ledger->ended[FW_OK]);
  } else {
    check_columns(ledger, trial->limit);
  }
}

const char *const trial_strategies[] = {"for_each", "when_all", "bounded", "chunked"};
const char *const trial_actions[] = {"noop", "delay", "cpu", "service"};

void trial_init_way(trial *trial, const char *strategy, const char *action, int pulled, int summary, uint64_t items,
                    uint64_t limit) {
  trial_init(trial, strategy, action, pulled ? FW_UNKNOWN : items, limit);
  if (!trial->plan.strategy->takes_limit)
    trial->limit = FW_UNKNOWN;
  trial->summary = summary;
  if (pulled)
    trial_pull(trial, items);
}

void trial_context(const char *strategy, const char *action, int pulled, int summary) {
  static char text[80];
  snprintf(text, sizeof text, "%s, %s%s%s", strategy, action, pulled ? ", pulled" : "", summary ? ", summary" : "");
  check_context(text);
}

void trial_each_way(void (*body)(const char *strategy, const char *action, int pulled, int summary)) {
  for (int s = 0; s < 4; s++)
    for (int a = 0; a < 4; a++)
      for (int way = 0; way < 4; way++) {
        trial_context(trial_strategies[s], trial_actions[a], way & 1, way >> 1);
        body(trial_strategies[s], trial_actions[a], way & 1, way >> 1);
      }
}

void trial_init_real(trial *trial, const char *strategy, const char *action, uint64_t items, uint64_t limit) {
  trial_init(trial, strategy, action, items, limit);
  trial->plan.is_virtual = 0;
  trial->plan.origin_ns = fw_monotonic_ns();
}

static uint64_t entries_of(const char *path) {
  uint64_t count = 0;
  DIR *folder = opendir(path);
  if (folder == NULL)
    return 0; /* no such thing here: then all counts are equal */
  while (readdir(folder) != NULL)
    count++;
  closedir(folder);
  return count;
}

uint64_t open_descriptors(void) { return entries_of("/proc/self/fd"); }

/* A thread that was joined may still be listed for a moment. */
static void check_threads_end(uint64_t before) {
  for (int i = 0; i < 1000 && entries_of("/proc/self/task") > before; i++)
    sleep_ns(1 * MS);
  CHECK(entries_of("/proc/self/task") <= before);
}

void trial_run(trial *trial) {
  trial->memory = (fw_memory){.context = &trial->ration, .resize = ration_resize, .release = ration_release};
  trial->plan.host = (fw_host){.context = trial, .tick = tick, .pull = trial->pulled ? pull : NULL};
  trial->plan.cancel = &trial->cancel;
  trial->caller = pthread_self();
  trial->rc = fw_ledger_init(&trial->ledger, &trial->memory, trial->total, trial->limit, !trial->summary);
  trial->ledger.max_failures = trial->max_failures;
  if (trial->rc < 0)
    return;
  uint64_t descriptors = open_descriptors(), threads = entries_of("/proc/self/task");
  trial->rc = fw_engine_run(&trial->plan, &trial->ledger, &trial->outcome);
  if (!trial->plan.is_virtual) {
    CHECK_EQUAL(open_descriptors(), descriptors);
    check_threads_end(threads);
  }
  CHECK(trial->ledger.counts.finished <= trial->ledger.counts.started); /* whatever the end, no item ended twice */
  if (trial->rc == 0)
    check_run_holds(trial);
}

void trial_run_guarded(trial *trial) {
  int64_t before_ns = fw_monotonic_ns();
  trial_run(trial);
  int64_t took_ns = fw_monotonic_ns() - before_ns;
  CHECK(took_ns < GUARD_NS);
  CHECK(took_ns >= trial->ledger.last_finish_ns - (before_ns - trial->plan.origin_ns));
}

void trial_check_never_early(const trial *trial, int64_t least_ns) {
  const fw_ledger *ledger = &trial->ledger;
  for (uint64_t i = 0; !trial->summary && i < ledger->counts.total; i++)
    if (ledger->state[i] == FW_OK)
      CHECK(ledger->finish_ns[i] - ledger->start_ns[i] >= fw_draw(&trial->plan.time, i));
  if (trial->summary && ledger->latency->n > 0)
    CHECK(ledger->latency->min_ns >= (int64_t)trial->plan.time.a);
  CHECK(ledger->last_finish_ns >= least_ns);
}

void trial_warm_up(void) {
  trial t;
  trial_init(&t, "bounded", "delay", 1, 1);
  t.plan.is_virtual = 0;
  trial_pull(&t, 1);
  fw_ledger_init(&t.ledger, &fw_system_memory, 1, 1, 1);
  t.plan.host = (fw_host){.context = &t, .pull = pull};
  t.caller = pthread_self();
  CHECK_EQUAL(fw_engine_run(&t.plan, &t.ledger, &t.outcome), 0);
  fw_ledger_close(&t.ledger);
}

void trial_close(trial *trial) {
  fw_ledger_close(&trial->ledger);
  CHECK_EQUAL(trial->ration.blocks, 0);
  CHECK_EQUAL(trial->ration.bytes, 0);
  CHECK_EQUAL(trial->ledger.arena.bytes, 0);
}

void trial_expect(const trial *trial, uint64_t ok, uint64_t failed, uint64_t timed_out, uint64_t cancelled,
                  uint64_t not_started) {
  const uint64_t *ended = trial->ledger.ended;
  CHECK_EQUAL(trial->rc, 0);
  CHECK_EQUAL(ended[FW_OK], ok);
  CHECK_EQUAL(ended[FW_FAILED], failed);
  CHECK_EQUAL(ended[FW_TIMED_OUT], timed_out);
  CHECK_EQUAL(ended[FW_CANCELLED], cancelled);
  CHECK_EQUAL(ended[FW_NOT_STARTED], not_started);
}

void trial_expect_columns(const trial *trial, int64_t unit_ns, const int64_t *start, const int64_t *finish) {
  for (uint64_t i = 0; trial->rc == 0 && i < trial->ledger.counts.total; i++) {
    if (start != NULL)
      CHECK_EQUAL(trial->ledger.start_ns[i], start[i] < 0 ? -1 : start[i] * unit_ns);
    if (finish != NULL)
      CHECK_EQUAL(trial->ledger.finish_ns[i], finish[i] < 0 ? -1 : finish[i] * unit_ns);
  }
}
