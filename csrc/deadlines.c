/* deadlines: a ring of ranges for deadlines that rise as they come, a radix heap of 16-byte entries for the rest.

   Time only goes on, so nothing is pushed that is earlier than what was popped. A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990)
   makes use of that: an entry is appended to the bucket of the highest bit in which its deadline differs from the last one taken,
   and moves to lower buckets as its time comes nearer. All it does is append and read in order, where a 4-ary heap of ten
   million entries misses the cache at every level. */
#include "deadlines.h"

#include <errno.h>
#include <string.h>

enum { LARGE = 1 << 18 }; /* entries: a bucket that was as large gives its memory back when it is empty */

static void empty(fw_bucket *bucket) {
  bucket->size = 0;
  bucket->least_ns = bucket->second_ns = FW_NEVER;
}

static void release_bucket(fw_deadlines *d, int b) {
  fw_bucket *bucket = &d->buckets[b];
  fw_release(d->arena, bucket->at, bucket->capacity * sizeof(fw_entry));
  bucket->at = NULL;
  bucket->capacity = 0;
  empty(bucket);
}

void fw_deadlines_init(fw_deadlines *deadlines, fw_arena *arena) {
  *deadlines = (fw_deadlines){.arena = arena};
  for (int b = 0; b < FW_BUCKETS; b++)
    empty(&deadlines->buckets[b]);
}

void fw_deadlines_close(fw_deadlines *deadlines) {
  fw_release(deadlines->arena, deadlines->ring, deadlines->ring_capacity * sizeof(fw_range));
  for (int b = 0; b < FW_BUCKETS; b++)
    release_bucket(deadlines, b);
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

static int bucket_of(const fw_deadlines *d, int64_t deadline_ns) {
  return deadline_ns == d->taken_ns ? 0 : 64 - __builtin_clzll((uint64_t)(deadline_ns ^ d->taken_ns));
}

static int bucket_push(fw_deadlines *d, fw_entry entry) {
  int b = bucket_of(d, entry.deadline_ns);
  fw_bucket *bucket = &d->buckets[b];
  if (bucket->size == bucket->capacity) {
    uint64_t old = bucket->capacity, capacity = old == 0 ? 16 : old * 2;
    fw_entry *at = fw_resize(d->arena, bucket->at, old * sizeof *at, capacity * sizeof *at);
    if (at == NULL)
      return -ENOMEM;
    bucket->at = at;
    bucket->capacity = capacity;
  }
  if (entry.deadline_ns < bucket->least_ns) {
    bucket->second_ns = bucket->least_ns;
    bucket->least_ns = entry.deadline_ns;
  } else if (entry.deadline_ns < bucket->second_ns && entry.deadline_ns > bucket->least_ns) {
    bucket->second_ns = entry.deadline_ns;
  }
  bucket->at[bucket->size++] = entry;
  d->occupied |= UINT64_C(1) << b;
  return 0;
}

static int lowest(uint64_t occupied) { return __builtin_ctzll(occupied); }

/* The lowest bucket that is not empty moves down, in order, so that equal deadlines stay in the order they came. */
static int spread_lowest(fw_deadlines *d) {
  int b = lowest(d->occupied);
  fw_bucket *bucket = &d->buckets[b];
  d->taken_ns = bucket->least_ns;
  for (uint64_t i = 0; i < bucket->size; i++) {
    int rc = bucket_push(d, bucket->at[i]);
    if (rc < 0)
      return rc;
  }
  d->occupied &= ~(UINT64_C(1) << b);
  if (bucket->capacity >= LARGE)
    release_bucket(d, b); /* the next one to fill up may be another */
  else
    empty(bucket);
  return 0;
}

static fw_entry take_front(fw_deadlines *d) {
  fw_bucket *bucket = &d->buckets[0];
  fw_entry entry = bucket->at[d->front++];
  if (d->front == bucket->size) {
    empty(bucket);
    d->front = 0;
    d->occupied &= ~UINT64_C(1);
  }
  return entry;
}

int fw_deadlines_push(fw_deadlines *d, uint64_t first, uint64_t count, int64_t deadline_ns) {
  if (d->length == 0 || ring_at(d, d->length - 1)->deadline_ns <= deadline_ns)
    return ring_push(d, first, count, deadline_ns);
  for (uint64_t i = 0; i < count; i++) {
    int rc = bucket_push(d, (fw_entry){.deadline_ns = deadline_ns, .id = first + i});
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int64_t next_in_ring(const fw_deadlines *d) { return d->length > 0 ? ring_at(d, 0)->deadline_ns : FW_NEVER; }

static int64_t next_in_buckets(uint64_t occupied, const fw_deadlines *d) {
  return occupied ? d->buckets[lowest(occupied)].least_ns : FW_NEVER;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t fw_deadlines_next(const fw_deadlines *d) { return earlier(next_in_ring(d), next_in_buckets(d->occupied, d)); }

static int shares(int64_t next_ns, int64_t other_ns, int64_t slack_ns) {
  return other_ns != FW_NEVER && other_ns > next_ns && other_ns - next_ns <= slack_ns;
}

int64_t fw_deadlines_wake(const fw_deadlines *d, int64_t slack_ns) {
  int64_t next = fw_deadlines_next(d);
  if (next == FW_NEVER)
    return next;
  int shared = shares(next, next_in_ring(d), slack_ns) || shares(next, next_in_buckets(d->occupied, d), slack_ns) ||
               (d->length > 1 && shares(next, ring_at(d, 1)->deadline_ns, slack_ns));
  if (!shared && d->occupied)
    shared = shares(next, d->buckets[lowest(d->occupied)].second_ns, slack_ns) ||
             shares(next, next_in_buckets(d->occupied & (d->occupied - 1), d), slack_ns);
  return shared ? next + slack_ns : next;
}

int fw_deadlines_pop(fw_deadlines *d, int64_t due_ns, fw_range *range) {
  int64_t ring = next_in_ring(d), buckets = next_in_buckets(d->occupied, d);
  if ((d->length == 0 || ring > due_ns) && (!d->occupied || buckets > due_ns))
    return 0;
  if (d->length > 0 && (!d->occupied || ring <= buckets)) {
    *range = *ring_at(d, 0);
    d->head = (d->head + 1) & (d->ring_capacity - 1);
    d->length--;
    return 1;
  }
  int rc = lowest(d->occupied) > 0 ? spread_lowest(d) : 0;
  if (rc < 0)
    return rc;
  fw_entry entry = take_front(d);
  *range = (fw_range){.first = entry.id, .count = 1, .deadline_ns = entry.deadline_ns};
  return 1;
}
