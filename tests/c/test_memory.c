/* test_memory: blocks grow and shrink across the border between heap and mappings, keep what is in them, and are counted. */
#include "check.h"
#include "memory.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static void fill(unsigned char *block, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    block[i] = (unsigned char)(i * 7 + 1);
}

static int is_filled(const unsigned char *block, size_t to) {
  for (size_t i = 0; i < to; i++)
    if (block[i] != (unsigned char)(i * 7 + 1))
      return 0;
  return 1;
}

static int is_zero(const unsigned char *block, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (block[i] != 0)
      return 0;
  return 1;
}

static void blocks_keep_their_bytes(void) {
  static const size_t sizes[] = {1, 100, 4096, MIB - 1, MIB, MIB + 1, 5 * MIB, 3 * MIB + 77, MIB, MIB - 1, 64, 2 * MIB, 10};
  fw_arena arena = {.memory = &fw_system_memory};
  unsigned char *block = NULL;
  size_t bytes = 0, peak = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t old = bytes;
    block = fw_resize(&arena, block, old, sizes[i]);
    if (!CHECK(block != NULL))
      return;
    bytes = sizes[i];
    peak = bytes > peak ? bytes : peak;
    size_t kept = old < bytes ? old : bytes;
    CHECK(is_filled(block, kept));
    if (bytes == peak)
      CHECK(is_zero(block, kept, bytes));
    fill(block, kept, bytes);
    CHECK_EQUAL(arena.bytes, bytes);
    CHECK_EQUAL(arena.peak_bytes, peak);
  }
  fw_release(&arena, block, bytes);
  CHECK_EQUAL(arena.bytes, 0);
  CHECK_EQUAL(arena.peak_bytes, peak);
  fw_release(&arena, NULL, 12345);
  CHECK_EQUAL(arena.bytes, 0);
}

/* Every way a block comes to be: new, from a smaller one, on either side of the border. */
static void new_bytes_are_zero(void) {
  static const size_t sizes[] = {1, 1000, MIB - 8, MIB, 3 * MIB + 5};
  for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
    for (size_t b = a; b < sizeof sizes / sizeof *sizes; b++) {
      fw_arena arena = {.memory = &fw_system_memory};
      unsigned char *block = fw_resize(&arena, NULL, 0, sizes[a]);
      CHECK(is_zero(block, 0, sizes[a]));
      fill(block, 0, sizes[a]);
      block = fw_resize(&arena, block, sizes[a], sizes[b]);
      CHECK(is_filled(block, sizes[a]));
      CHECK(is_zero(block, sizes[a], sizes[b]));
      fw_release(&arena, block, sizes[b]);
    }
}

static void more_than_there_is_leaves_the_block(void) {
  fw_arena arena = {.memory = &fw_system_memory};
  static const size_t sizes[] = {100, 2 * MIB};
  for (int i = 0; i < 2; i++) {
    unsigned char *block = fw_resize(&arena, NULL, 0, sizes[i]);
    fill(block, 0, sizes[i]);
    CHECK(fw_resize(&arena, block, sizes[i], (size_t)1 << 60) == NULL);
    CHECK_EQUAL(arena.bytes, sizes[i]);
    CHECK(is_filled(block, sizes[i]));
    fw_release(&arena, block, sizes[i]);
  }
}

/* A wish that changes no byte, whatever part of a block it is for. */
static void touching_changes_nothing(void) {
  fw_arena arena = {.memory = &fw_system_memory};
  size_t bytes = 4 * MIB;
  unsigned char *block = fw_resize(&arena, NULL, 0, bytes);
  fill(block, 0, bytes);
  fw_touch(block, bytes);
  fw_touch(block + 12345, bytes - 12345);
  fw_touch(block + 5, 100);
  fw_touch(block, 0);
  CHECK(is_filled(block, bytes));
  fw_release(&arena, block, bytes);
}

/* Takes and gives at random; a slot is never given to two. */
static void slots_are_taken_once(void) {
  enum { MOST = 500 };
  fw_arena arena = {.memory = &fw_system_memory};
  fw_slots slots = {.arena = &arena};
  uint64_t held[MOST], count = 0;
  int64_t starts[MOST], stamp = 1000;
  char busy[1024] = {0};
  random_source random = {5};
  for (int i = 0; i < 20000; i++) {
    if (count < MOST && random_below(&random, 100) < (i / 2000 % 2 ? 40u : 60u)) {
      uint64_t slot = UINT64_MAX;
      CHECK_EQUAL(fw_slots_take(&slots, stamp, &slot), 0);
      if (!CHECK(slot < sizeof busy && !busy[slot]))
        break;
      busy[slot] = 1;
      held[count] = slot;
      starts[count++] = stamp++;
    } else if (count > 0) {
      uint64_t which = random_below(&random, count);
      CHECK_EQUAL(fw_slots_give(&slots, held[which]), starts[which]);
      busy[held[which]] = 0;
      held[which] = held[--count];
      starts[which] = starts[count];
    }
  }
  CHECK_AT_MOST(slots.capacity, 512); /* it grows with the most that were held at once, not with the takes */
  fw_slots_close(&slots);
  CHECK_EQUAL(arena.bytes, 0);
}

int main(void) {
  TEST(blocks_keep_their_bytes);
  TEST(new_bytes_are_zero);
  TEST(more_than_there_is_leaves_the_block);
  TEST(touching_changes_nothing);
  TEST(slots_are_taken_once);
  return check_report();
}
