/* deadlines.h: what is due when. Rising deadlines queue up as ranges of items, others go to a 4-ary heap. */
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

typedef struct fw_deadlines {
  fw_arena *arena;                      /* borrowed */
  fw_range *ring;                       /* owned; deadlines never fall from head to tail */
  uint64_t ring_capacity, head, length; /* capacity: 0 or a power of two */
  fw_entry *heap;                       /* owned; children of i are 4 i + 1 .. 4 i + 4 */
  uint64_t heap_capacity, heap_size;
} fw_deadlines;

void fw_deadlines_init(fw_deadlines *deadlines, fw_arena *arena);
void fw_deadlines_close(fw_deadlines *deadlines);

/* 0, or -ENOMEM with nothing added of the range, or only its first ids where it had to go to the heap. */
int fw_deadlines_push(fw_deadlines *deadlines, uint64_t first, uint64_t count, int64_t deadline_ns);

/* The earliest deadline, or FW_NEVER. */
int64_t fw_deadlines_next(const fw_deadlines *deadlines);

/* When to wake: the earliest deadline, or `slack_ns` later where others would share that wake. */
int64_t fw_deadlines_wake(const fw_deadlines *deadlines, int64_t slack_ns);

/* Takes the earliest range whose deadline is not after `due_ns`; equal deadlines by id. 0 when there is none. */
int fw_deadlines_pop(fw_deadlines *deadlines, int64_t due_ns, fw_range *range);

#endif
