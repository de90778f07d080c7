/* twin: every operation on both, every answer compared. */
#include "twin.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Every growth moves the block, so that a pointer kept across it is found out. */
static void *resize(void *context, void *block, size_t old_bytes, size_t bytes) {
  twin *pair = context;
  if (pair->refuse) {
    pair->refuse = 0;
    return NULL;
  }
  char *moved = calloc(1, bytes);
  if (block != NULL)
    memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  else
    pair->blocks++;
  free(block);
  return moved;
}

static void release(void *context, void *block, size_t bytes) {
  twin *pair = context;
  (void)bytes;
  pair->blocks--;
  free(block);
}

void twin_open(twin *pair, int rising) {
  *pair = (twin){.rising = rising, .memory = {.context = pair, .resize = resize, .release = release}};
  pair->arena.memory = &pair->memory;
  fw_deadlines_init(&pair->deadlines, &pair->arena);
}

void twin_close(twin *pair) {
  fw_deadlines_close(&pair->deadlines);
  CHECK_EQUAL(pair->arena.bytes, 0);
  CHECK_EQUAL(pair->blocks, 0);
  free(pair->entries);
}

static int before(fw_entry a, fw_entry b) {
  return a.deadline_ns < b.deadline_ns || (a.deadline_ns == b.deadline_ns && a.id < b.id);
}

/* Where the entry is, or belongs. */
static size_t place_of(const twin *pair, fw_entry entry) {
  size_t low = 0, high = pair->size;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (before(pair->entries[middle], entry))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void add(twin *pair, fw_entry entry) {
  if (pair->size == pair->capacity) {
    pair->capacity = pair->capacity == 0 ? 64 : pair->capacity * 2;
    pair->entries = realloc(pair->entries, pair->capacity * sizeof *pair->entries);
  }
  /* Loops, for under a sanitizer memmove goes byte by byte. */
  size_t place = place_of(pair, entry);
  for (size_t i = pair->size++; i > place; i--)
    pair->entries[i] = pair->entries[i - 1];
  pair->entries[place] = entry;
}

uint64_t twin_in_heap(const twin *pair) {
  uint64_t count = 0;
  for (int b = 0; b < FW_BUCKETS; b++)
    count += pair->deadlines.buckets[b].size;
  return count - pair->deadlines.front;
}

void twin_push(twin *pair, uint64_t first, uint64_t count, int64_t deadline_ns) {
  uint64_t in_heap = twin_in_heap(pair), length = pair->deadlines.length;
  int refused = pair->refuse, rc = fw_deadlines_push(&pair->deadlines, first, count, deadline_ns);
  if (rc < 0) {
    CHECK_EQUAL(rc, -ENOMEM);
    CHECK(refused && !pair->refuse);
    CHECK_EQUAL(pair->deadlines.length, length);
    count = twin_in_heap(pair) - in_heap; /* of a range for the heap, the first ids may be in it */
  }
  pair->refuse = 0;
  for (uint64_t i = 0; i < count; i++)
    add(pair, (fw_entry){.deadline_ns = deadline_ns, .id = first + i});
}

int twin_pop(twin *pair, int64_t due_ns) {
  fw_range range = {.count = 0};
  int got = fw_deadlines_pop(&pair->deadlines, due_ns, &range);
  if (!CHECK_EQUAL(got, pair->size > 0 && pair->entries[0].deadline_ns <= due_ns) || !got)
    return 0;
  CHECK(range.count > 0);
  CHECK_EQUAL(range.deadline_ns, pair->entries[0].deadline_ns);
  for (uint64_t i = 0; i < range.count; i++) {
    fw_entry entry = {.deadline_ns = range.deadline_ns, .id = range.first + i};
    size_t place = place_of(pair, entry);
    if (!CHECK(place < pair->size && pair->entries[place].id == entry.id &&
               pair->entries[place].deadline_ns == entry.deadline_ns))
      return 0;
    if (pair->rising)
      CHECK_EQUAL(place, 0);
    pair->size--;
    for (size_t j = place; j < pair->size; j++)
      pair->entries[j] = pair->entries[j + 1];
  }
  return 1;
}

void twin_pop_due(twin *pair, int64_t due_ns) {
  while (twin_pop(pair, due_ns))
    ;
  if (pair->size > 0)
    CHECK(pair->entries[0].deadline_ns > due_ns);
}

void twin_check(const twin *pair, int64_t slack_ns) {
  int64_t next = pair->size > 0 ? pair->entries[0].deadline_ns : FW_NEVER, wake = fw_deadlines_wake(&pair->deadlines, slack_ns);
  CHECK_EQUAL(fw_deadlines_next(&pair->deadlines), next);
  CHECK_EQUAL(fw_deadlines_wake(&pair->deadlines, 0), next);
  if (next == FW_NEVER) {
    CHECK_EQUAL(wake, FW_NEVER);
    return;
  }
  CHECK(wake >= next);
  CHECK_AT_MOST(wake - next, slack_ns);
  /* A wake is put off only for the sake of another deadline. */
  if (wake > next) {
    size_t others = 0;
    while (others < pair->size && pair->entries[others].deadline_ns == next)
      others++;
    CHECK(others < pair->size && pair->entries[others].deadline_ns <= wake);
  }
}
