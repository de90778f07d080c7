/* ledger: writes what happened to items, a range at a time. It knows no clock and no action. */
#include "ledger.h"

#include <errno.h>
#include <string.h>

static void place_columns(fw_ledger *ledger, char *block, uint64_t capacity) {
  ledger->start_ns = (int64_t *)block;
  ledger->finish_ns = ledger->start_ns + capacity;
  ledger->state = (int8_t *)(ledger->finish_ns + capacity);
  ledger->capacity = capacity;
}

/* The columns move apart when the block grows, the last one first so that none is overwritten. */
static int grow(fw_ledger *ledger, uint64_t capacity) {
  if (capacity > SIZE_MAX / FW_ITEM_BYTES)
    return -ENOMEM;
  uint64_t old = ledger->capacity;
  size_t bytes = capacity * FW_ITEM_BYTES;
  char *block = fw_resize(&ledger->arena, ledger->start_ns, ledger->block_bytes, bytes);
  if (block == NULL)
    return -ENOMEM;
  ledger->block_bytes = bytes;
  place_columns(ledger, block, capacity);
  memmove(ledger->state, block + old * 2 * sizeof(int64_t), old);
  memmove(ledger->finish_ns, block + old * sizeof(int64_t), old * sizeof(int64_t));
  return 0;
}

/* They move together before it shrinks, the first one first. A block that cannot shrink stays as large as it is. */
static void shrink(fw_ledger *ledger, uint64_t capacity) {
  char *block = (char *)ledger->start_ns;
  memmove(block + capacity * sizeof(int64_t), ledger->finish_ns, capacity * sizeof(int64_t));
  memmove(block + capacity * 2 * sizeof(int64_t), ledger->state, capacity);
  char *shrunk = fw_resize(&ledger->arena, block, ledger->block_bytes, capacity * FW_ITEM_BYTES);
  if (shrunk != NULL)
    ledger->block_bytes = capacity * FW_ITEM_BYTES;
  place_columns(ledger, shrunk == NULL ? block : shrunk, capacity);
}

int fw_ledger_init(fw_ledger *ledger, const fw_memory *memory, uint64_t total, uint64_t limit, int samples) {
  *ledger = (fw_ledger){.arena = {.memory = memory}, .counts = {.total = total, .limit = limit}, .max_failures = FW_UNKNOWN};
  if (samples) {
    int rc = total == 0 ? 0 : grow(ledger, total == FW_UNKNOWN ? 64 : total);
    /* What may start at once is written at once: the first touch of its pages must not hold up the items. */
    uint64_t at_once = limit < ledger->capacity ? limit : ledger->capacity;
    if (rc == 0) {
      fw_touch(ledger->start_ns, at_once * sizeof(int64_t));
      fw_touch(ledger->finish_ns, at_once * sizeof(int64_t));
      fw_touch(ledger->state, at_once);
    }
    return rc;
  }
  ledger->latency = fw_resize(&ledger->arena, NULL, 0, 2 * sizeof(fw_tally));
  if (ledger->latency == NULL)
    return -ENOMEM;
  ledger->wait = ledger->latency + 1;
  return 0;
}

void fw_ledger_close(fw_ledger *ledger) {
  fw_release(&ledger->arena, ledger->start_ns, ledger->block_bytes);
  fw_release(&ledger->arena, ledger->latency, 2 * sizeof(fw_tally));
  ledger->start_ns = NULL;
  ledger->latency = NULL;
  ledger->capacity = ledger->block_bytes = 0;
}

static void fill_ns(int64_t *column, uint64_t count, int64_t value) {
  for (uint64_t i = 0; i < count; i++)
    column[i] = value;
}

int fw_ledger_start(fw_ledger *ledger, uint64_t count, int64_t now_ns) {
  uint64_t first = ledger->counts.started;
  if (ledger->latency == NULL) {
    if (first + count > ledger->capacity) {
      uint64_t doubled = ledger->capacity * 2;
      int rc = grow(ledger, doubled > first + count ? doubled : first + count);
      if (rc < 0)
        return rc;
    }
    fill_ns(ledger->start_ns + first, count, now_ns);
    memset(ledger->state + first, FW_IN_FLIGHT, count);
  }
  ledger->counts.started = first + count;
  if (ledger->pulled < ledger->counts.started)
    ledger->pulled = ledger->counts.started;
  if (fw_in_flight(ledger) > ledger->peak_in_flight)
    ledger->peak_in_flight = fw_in_flight(ledger);
  return 0;
}

void fw_ledger_stop(fw_ledger *ledger, int cause) {
  if (cause > ledger->stop)
    ledger->stop = cause;
}

void fw_ledger_finish(fw_ledger *ledger, uint64_t first, uint64_t count, int64_t start_ns, int64_t now_ns, int state) {
  if (ledger->latency == NULL) {
    fill_ns(ledger->finish_ns + first, count, now_ns);
    memset(ledger->state + first, state, count);
  } else if (state == FW_OK) {
    fw_tally_add(ledger->latency, now_ns - start_ns, count);
    fw_tally_add(ledger->wait, start_ns, count);
  }
  ledger->counts.finished += count;
  ledger->ended[state] += count;
  if (now_ns > ledger->last_finish_ns)
    ledger->last_finish_ns = now_ns;
  if (ledger->ended[FW_FAILED] + ledger->ended[FW_TIMED_OUT] > ledger->max_failures)
    fw_ledger_stop(ledger, FW_STOP_FAILURE);
}

int fw_ledger_seal(fw_ledger *ledger) {
  uint64_t started = ledger->counts.started, known = ledger->counts.total;
  if (known == FW_UNKNOWN || known < ledger->pulled)
    known = ledger->pulled;
  ledger->counts.total = known;
  ledger->ended[FW_NOT_STARTED] = known - started;
  if (ledger->latency != NULL)
    return 0;
  if (known > ledger->capacity) {
    int rc = grow(ledger, known);
    if (rc < 0)
      return rc;
  } else if (known == 0) {
    fw_ledger_close(ledger);
  } else if (known < ledger->capacity) {
    shrink(ledger, known);
  }
  if (known > started) {
    fill_ns(ledger->start_ns + started, known - started, -1);
    fill_ns(ledger->finish_ns + started, known - started, -1);
    memset(ledger->state + started, FW_NOT_STARTED, known - started);
  }
  return 0;
}
