/* deadlines: a ring of ranges for deadlines that rise as they come, a 4-ary heap of 16-byte entries for the rest. */
#include "deadlines.h"

#include <errno.h>
#include <string.h>

/* The heap begins three entries into its block, so that the four children of an entry share a cache line. */
enum { HEAP_SHIFT = 3 };

static fw_entry *heap_block(const fw_deadlines *d) { return d->heap == NULL ? NULL : d->heap - HEAP_SHIFT; }

static size_t heap_bytes(uint64_t capacity) { return (capacity + HEAP_SHIFT) * sizeof(fw_entry); }

void fw_deadlines_init(fw_deadlines *deadlines, fw_arena *arena) { *deadlines = (fw_deadlines){.arena = arena}; }

void fw_deadlines_close(fw_deadlines *deadlines) {
  fw_release(deadlines->arena, deadlines->ring, deadlines->ring_capacity * sizeof(fw_range));
  fw_release(deadlines->arena, heap_block(deadlines), heap_bytes(deadlines->heap_capacity));
  fw_deadlines_init(deadlines, deadlines->arena);
}

static fw_range *ring_at(const fw_deadlines *d, uint64_t place) { return &d->ring[(d->head + place) & (d->ring_capacity - 1)]; }

/* Twice the room: what had wrapped round to the front moves to the new half. */
static int ring_grow(fw_deadlines *d) {
  uint64_t old = d->ring_capacity, capacity = old == 0 ? 16 : old * 2;
  fw_range *ring = fw_resize(d->arena, d->ring, old * sizeof *ring, capacity * sizeof *ring);
  if (ring == NULL)
    return -ENOMEM;
  memcpy(ring + old, ring, d->head * sizeof *ring);
  d->ring = ring;
  d->ring_capacity = capacity;
  return 0;
}

static int ring_push(fw_deadlines *d, uint64_t first, uint64_t count, int64_t deadline_ns) {
  if (d->length > 0) {
    fw_range *last = ring_at(d, d->length - 1);
    if (last->deadline_ns == deadline_ns && last->first + last->count == first) {
      last->count += count;
      return 0;
    }
  }
  if (d->length == d->ring_capacity) {
    int rc = ring_grow(d);
    if (rc < 0)
      return rc;
  }
  *ring_at(d, d->length++) = (fw_range){.first = first, .count = count, .deadline_ns = deadline_ns};
  return 0;
}

static int before(fw_entry a, fw_entry b) {
  return a.deadline_ns < b.deadline_ns || (a.deadline_ns == b.deadline_ns && a.id < b.id);
}

static int heap_push(fw_deadlines *d, fw_entry entry) {
  if (d->heap_size == d->heap_capacity) {
    uint64_t old = d->heap_capacity, capacity = old == 0 ? 64 : old * 2;
    fw_entry *block = fw_resize(d->arena, heap_block(d), heap_bytes(old), heap_bytes(capacity));
    if (block == NULL)
      return -ENOMEM;
    d->heap = block + HEAP_SHIFT;
    d->heap_capacity = capacity;
  }
  uint64_t hole = d->heap_size++;
  while (hole > 0 && before(entry, d->heap[(hole - 1) / 4])) {
    d->heap[hole] = d->heap[(hole - 1) / 4];
    hole = (hole - 1) / 4;
  }
  d->heap[hole] = entry;
  return 0;
}

/* The hole left by the root sinks along the earliest children to the bottom, then the last entry rises from there: it
   nearly always belongs near the bottom, so comparing it on the way down would be in vain (Wegener 1993). */
static fw_entry heap_pop(fw_deadlines *d) {
  fw_entry *heap = d->heap, root = heap[0], last = heap[--d->heap_size];
  uint64_t size = d->heap_size, hole = 0;
  for (uint64_t child = 1; child < size; child = 4 * hole + 1) {
    uint64_t end = child + 4 < size ? child + 4 : size, least = child;
    for (uint64_t i = 0; i < 4; i++) /* whichever child is the earliest, its own children are on their way */
      __builtin_prefetch(&heap[4 * (child + i) + 1]);
    for (uint64_t other = child + 1; other < end; other++)
      if (before(heap[other], heap[least]))
        least = other;
    heap[hole] = heap[least];
    hole = least;
  }
  while (hole > 0 && before(last, heap[(hole - 1) / 4])) {
    heap[hole] = heap[(hole - 1) / 4];
    hole = (hole - 1) / 4;
  }
  if (size > 0)
    heap[hole] = last;
  return root;
}

int fw_deadlines_push(fw_deadlines *d, uint64_t first, uint64_t count, int64_t deadline_ns) {
  if (d->length == 0 || ring_at(d, d->length - 1)->deadline_ns <= deadline_ns)
    return ring_push(d, first, count, deadline_ns);
  for (uint64_t i = 0; i < count; i++) {
    int rc = heap_push(d, (fw_entry){.deadline_ns = deadline_ns, .id = first + i});
    if (rc < 0)
      return rc;
  }
  return 0;
}

int64_t fw_deadlines_next(const fw_deadlines *d) {
  int64_t ring = d->length > 0 ? ring_at(d, 0)->deadline_ns : FW_NEVER;
  int64_t heap = d->heap_size > 0 ? d->heap[0].deadline_ns : FW_NEVER;
  return ring < heap ? ring : heap;
}

/* Only the next range and the root's children are asked: where deadlines are dense, one of them is nearly always near. */
int64_t fw_deadlines_wake(const fw_deadlines *d, int64_t slack_ns) {
  int64_t next = fw_deadlines_next(d);
  if (next == FW_NEVER)
    return next;
  int64_t late = next + slack_ns;
  if (d->length > 1 && ring_at(d, 1)->deadline_ns > next && ring_at(d, 1)->deadline_ns <= late)
    return late;
  for (uint64_t i = 1; i < 5 && i < d->heap_size; i++)
    if (d->heap[i].deadline_ns > next && d->heap[i].deadline_ns <= late)
      return late;
  return next;
}

int fw_deadlines_pop(fw_deadlines *d, int64_t due_ns, fw_range *range) {
  fw_entry ring = {.deadline_ns = FW_NEVER}, heap = ring;
  if (d->length > 0)
    ring = (fw_entry){.deadline_ns = ring_at(d, 0)->deadline_ns, .id = ring_at(d, 0)->first};
  if (d->heap_size > 0)
    heap = d->heap[0];
  if ((d->length == 0 || ring.deadline_ns > due_ns) && (d->heap_size == 0 || heap.deadline_ns > due_ns))
    return 0;
  if (d->heap_size > 0 && (d->length == 0 || before(heap, ring))) {
    heap_pop(d);
    *range = (fw_range){.first = heap.id, .count = 1, .deadline_ns = heap.deadline_ns};
  } else {
    *range = *ring_at(d, 0);
    d->head = (d->head + 1) & (d->ring_capacity - 1);
    d->length--;
  }
  return 1;
}
