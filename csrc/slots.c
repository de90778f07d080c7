/* slots: an array whose free places form a list inside it. */
#include "slots.h"

#include <errno.h>

static int grow(fw_slots *slots) {
  uint64_t old = slots->capacity, capacity = old == 0 ? 64 : old * 2;
  int64_t *start_ns = fw_resize(slots->arena, slots->start_ns, old * sizeof *start_ns, capacity * sizeof *start_ns);
  if (start_ns == NULL)
    return -ENOMEM;
  for (uint64_t slot = old; slot < capacity; slot++)
    start_ns[slot] = (int64_t)slot + 1;
  slots->start_ns = start_ns;
  slots->capacity = capacity;
  return 0;
}

int fw_slots_take(fw_slots *slots, int64_t start_ns, uint64_t *slot) {
  if (slots->free == slots->capacity) {
    int rc = grow(slots);
    if (rc < 0)
      return rc;
  }
  *slot = slots->free;
  slots->free = (uint64_t)slots->start_ns[*slot];
  slots->start_ns[*slot] = start_ns;
  return 0;
}

int64_t fw_slots_give(fw_slots *slots, uint64_t slot) {
  int64_t start_ns = slots->start_ns[slot];
  slots->start_ns[slot] = (int64_t)slots->free;
  slots->free = slot;
  return start_ns;
}

void fw_slots_close(fw_slots *slots) {
  fw_release(slots->arena, slots->start_ns, slots->capacity * sizeof *slots->start_ns);
  *slots = (fw_slots){.arena = slots->arena};
}
