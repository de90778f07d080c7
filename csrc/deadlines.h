/* deadlines.h: what is due when. Rising deadlines queue up as ranges of items, others go to a radix heap. */
#ifndef FW_DEADLINES_H
#define FW_DEADLINES_H

#include "memory.h"

#include <stdint.h>

#define FW_NEVER INT64_MAX

typedef struct fw_range {
  uint64_t first, count; /* ids first .. first + count - 1 */
  int64_t deadline_ns;
} fw_range;

typedef struct fw_entry {
  int64_t deadline_ns;
  uint64_t id;
} fw_entry;

typedef struct fw_bucket {
  fw_entry *at; /* owned; in the order they came */
  uint64_t capacity, size;
  int64_t least_ns, second_ns; /* the two earliest different deadlines in it; FW_NEVER: there is none */
} fw_bucket;

enum { FW_BUCKETS = 64 };

typedef struct fw_deadlines {
  fw_arena *arena;                      /* borrowed */
  fw_range *ring;                       /* owned; deadlines never fall from head to tail */
  uint64_t ring_capacity, head, length; /* capacity: 0 or a power of two */

  /* Bucket b > 0 holds deadlines whose highest bit that differs from `taken_ns` is bit b - 1; bucket 0 those equal to it. */
  fw_bucket buckets[FW_BUCKETS];
  uint64_t occupied; /* bit b: bucket b is not empty */
  uint64_t front;    /* of bucket 0: entries before it have been taken */
  int64_t taken_ns;  /* no deadline in the buckets is earlier */
} fw_deadlines;

void fw_deadlines_init(fw_deadlines *deadlines, fw_arena *arena);
void fw_deadlines_close(fw_deadlines *deadlines);

/* A deadline must not be earlier than one that was popped. 0, or -ENOMEM with nothing added of the range, or only its first
   ids where it had to go to the buckets. */
int fw_deadlines_push(fw_deadlines *deadlines, uint64_t first, uint64_t count, int64_t deadline_ns);

/* The earliest deadline, or FW_NEVER. */
int64_t fw_deadlines_next(const fw_deadlines *deadlines);

/* When to wake: the earliest deadline, or `slack_ns` later where others would share that wake. */
int64_t fw_deadlines_wake(const fw_deadlines *deadlines, int64_t slack_ns);

/* Takes the earliest range whose deadline is not after `due_ns`, of equal ones that of the ring, else the first that came: 1, or
   0 when there is none, or -ENOMEM. */
int fw_deadlines_pop(fw_deadlines *deadlines, int64_t due_ns, fw_range *range);

#endif
