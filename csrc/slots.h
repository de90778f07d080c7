/* slots.h: remembers when items in flight started where no column does. Shared by the actions; memory grows with the peak. */
#ifndef FW_SLOTS_H
#define FW_SLOTS_H

#include "memory.h"

#include <stdint.h>

typedef struct fw_slots {
  fw_arena *arena;   /* borrowed */
  int64_t *start_ns; /* owned, by slot; of a free slot: the next free one */
  uint64_t capacity;
  uint64_t free; /* the first free slot; capacity: none */
} fw_slots;

/* A slot for an item that started at `start_ns`, through `slot`. 0 or -ENOMEM. */
int fw_slots_take(fw_slots *slots, int64_t start_ns, uint64_t *slot);

/* Frees the slot and gives the start it held. */
int64_t fw_slots_give(fw_slots *slots, uint64_t slot);

void fw_slots_close(fw_slots *slots);

#endif
