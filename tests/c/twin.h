/* twin.h: deadlines and a plain sorted list that are given the same operations and must agree. For tests and the fuzz target. */
#ifndef TWIN_H
#define TWIN_H

#include "deadlines.h"

typedef struct twin {
  fw_deadlines deadlines;
  fw_arena arena;
  fw_memory memory;
  int refuse;        /* the next allocation fails */
  uint64_t blocks;   /* held */
  int rising;        /* ids are pushed in rising order, as items are: then equal deadlines come by id */
  fw_entry *entries; /* sorted by deadline, then id */
  size_t size, capacity;
} twin;

void twin_open(twin *pair, int rising);
void twin_close(twin *pair); /* checks that no memory is held any more */

/* Ids first .. first + count - 1 must not be among those that are pending, and the deadline not before one that was popped. */
void twin_push(twin *pair, uint64_t first, uint64_t count, int64_t deadline_ns);

/* How many ids are in the radix heap, not in the ring. */
uint64_t twin_in_heap(const twin *pair);

/* Takes everything that is due. */
void twin_pop_due(twin *pair, int64_t due_ns);

/* Takes one range. 0 where nothing is due. */
int twin_pop(twin *pair, int64_t due_ns);

/* The next deadline and when to wake for it. */
void twin_check(const twin *pair, int64_t slack_ns);

#endif
