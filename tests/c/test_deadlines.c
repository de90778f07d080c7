/* test_deadlines: the ring, the radix heap and both together against a sorted list, by hand and on long random walks. */
#include "check.h"
#include "twin.h"

#include <errno.h>
#include <stdio.h>

static uint64_t operations = 100000;

static int64_t constant(random_source *random) {
  (void)random;
  return 50000;
}
static int64_t narrow(random_source *random) { return (int64_t)random_below(random, 8); } /* mostly ties */
static int64_t wide(random_source *random) { return (int64_t)random_below(random, 100000); }
static int64_t mixed(random_source *random) {
  switch (random_below(random, 4)) {
  case 0:
    return constant(random);
  case 1:
    return narrow(random);
  case 2:
    return wide(random);
  default:
    return (int64_t)(random_bits(random) >> (24 + random_below(random, 40)));
  }
}

/* Times rise and things are pushed and popped, more of one for a while, then more of the other. */
static void walk(const char *name, int64_t (*delay)(random_source *), uint64_t steps, int rising, uint64_t seed) {
  char text[64];
  snprintf(text, sizeof text, "%s, %s ids, seed %d", name, rising ? "rising" : "any", (int)seed);
  check_context(text);
  random_source random = {seed};
  twin pair;
  twin_open(&pair, rising);
  int64_t now = 0;
  uint64_t id = 0;
  for (uint64_t i = 0; i < steps; i++) {
    int filling = i / 1000 % 2 == 0;
    if (pair.size < 1000 && random_below(&random, 8) < (filling ? 5u : 3u)) {
      uint64_t count = 1 + random_below(&random, 4);
      /* Ids such as servers' come in any order: here blocks of four go up and down. */
      uint64_t first = rising ? id : (id ^ UINT64_C(0xaaa8)) & ~UINT64_C(3);
      twin_push(&pair, first, count, now + delay(&random));
      id = rising ? id + count : id + 4;
    } else {
      int64_t next = fw_deadlines_next(&pair.deadlines);
      switch (random_below(&random, 3)) {
      case 0: /* the next one */
        if (next != FW_NEVER && now < next)
          now = next;
        twin_pop(&pair, now);
        break;
      case 1: /* one may be due or not */
        twin_pop(&pair, now);
        break;
      default: /* a late wake */
        now += (int64_t)random_below(&random, 500);
        twin_pop_due(&pair, now);
      }
    }
    twin_check(&pair, (int64_t)random_below(&random, 100));
  }
  twin_pop_due(&pair, FW_NEVER);
  CHECK_EQUAL(pair.size, 0);
  twin_check(&pair, 50);
  twin_close(&pair);
}

static void random_walks(void) {
  static const struct {
    const char *name;
    int64_t (*delay)(random_source *);
    uint64_t part; /* of all operations: ring and heap together need the most */
  } delays[] = {{"constant", constant, 10}, {"narrow", narrow, 5}, {"wide", wide, 5}, {"mixed", mixed, 1}};
  for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
    walk(delays[i].name, delays[i].delay, operations / delays[i].part, 1, 1);
    walk(delays[i].name, delays[i].delay, operations / delays[i].part / 2, 0, 2);
  }
}

static void nothing(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_check(&pair, 50);
  CHECK_EQUAL(twin_pop(&pair, FW_NEVER), 0);
  twin_close(&pair);
}

/* Equal delays need one entry for each start, however many items it is of. */
static void equal_deadlines_are_one_range(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_push(&pair, 0, 100000, 50);
  twin_push(&pair, 100000, 5, 50); /* the next start at the same reading of the clock */
  CHECK_EQUAL(pair.deadlines.length, 1);
  twin_push(&pair, 100005, 1, 60);
  twin_push(&pair, 100007, 1, 60); /* 100006 is missing */
  CHECK_EQUAL(pair.deadlines.length, 3);
  CHECK_EQUAL(twin_in_heap(&pair), 0);
  fw_range range;
  CHECK_EQUAL(fw_deadlines_pop(&pair.deadlines, 49, &range), 0);
  CHECK_EQUAL(fw_deadlines_pop(&pair.deadlines, 50, &range), 1);
  CHECK_EQUAL(range.first, 0);
  CHECK_EQUAL(range.count, 100005);
  CHECK_EQUAL(range.deadline_ns, 50);
  twin_close(&pair);
}

/* The first id of a range that falls goes to the heap, and so do the others of it. */
static void falling_deadlines_go_to_the_heap(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_push(&pair, 0, 3, 100);
  twin_push(&pair, 3, 3, 90);
  twin_push(&pair, 6, 2, 90);
  twin_push(&pair, 8, 2, 100);
  CHECK_EQUAL(twin_in_heap(&pair), 5);
  CHECK_EQUAL(pair.deadlines.length, 2);
  twin_check(&pair, 5);
  twin_check(&pair, 10);
  twin_pop_due(&pair, FW_NEVER);
  CHECK_EQUAL(pair.size, 0);
  twin_close(&pair);
}

static void equal_deadlines_of_ring_and_heap_come_by_id(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_push(&pair, 0, 2, 10); /* ring */
  twin_push(&pair, 2, 1, 20); /* ring */
  twin_push(&pair, 3, 1, 10); /* heap: after the ring's, by id */
  twin_push(&pair, 4, 1, 5);  /* heap */
  for (int i = 0; i < 4; i++)
    CHECK(twin_pop(&pair, 20)); /* 4, then 0 and 1, then 3, then 2: the twin checks it */
  twin_push(&pair, 5, 1, 30);
  twin_push(&pair, 6, 1, 25); /* heap */
  CHECK(twin_pop(&pair, 25));
  twin_push(&pair, 7, 1, 28); /* heap */
  CHECK_EQUAL(twin_in_heap(&pair), 1);
  CHECK(twin_pop(&pair, 30));
  CHECK(twin_pop(&pair, 30)); /* the ring is empty */
  twin_push(&pair, 8, 1, 1);  /* anything begins a new ring */
  CHECK_EQUAL(twin_in_heap(&pair), 0);
  CHECK(twin_pop(&pair, 1));
  twin_close(&pair);
}

static void check_order(twin *pair, const uint64_t *ids, int count) {
  for (int i = 0; i < count; i++) {
    fw_range range = {.count = 0};
    CHECK_EQUAL(fw_deadlines_pop(&pair->deadlines, FW_NEVER, &range), 1);
    CHECK_EQUAL(range.first, ids[i]);
  }
  CHECK_EQUAL(fw_deadlines_next(&pair->deadlines), FW_NEVER);
  pair->size = 0;
}

/* Of equal deadlines the ring's come first, then the others as they came, whatever their ids: the same in every run. */
static void equal_deadlines_come_in_a_fixed_order(void) {
  twin pair;
  twin_open(&pair, 0);
  twin_push(&pair, 0, 1, 10); /* ring */
  twin_push(&pair, 2, 1, 20); /* ring */
  twin_push(&pair, 3, 1, 10); /* heap, as all that follow */
  twin_push(&pair, 9, 1, 7);
  twin_push(&pair, 4, 1, 10);
  twin_push(&pair, 1, 1, 10);
  twin_push(&pair, 8, 1, 7);
  CHECK_EQUAL(pair.deadlines.length, 2);
  static const uint64_t order[] = {9, 8, 0, 3, 4, 1, 2};
  check_order(&pair, order, 7);
  twin_close(&pair);
}

/* Deadlines that differ from the one taken last in each of the bits, while time goes on from one to the next. */
static void every_distance_in_time(void) {
  twin pair;
  twin_open(&pair, 1);
  int64_t now = 12345;
  uint64_t id = 1;
  twin_push(&pair, 0, 1, INT64_MAX - 1); /* in the ring: all others come before it */
  for (int bit = 0; bit < 61; bit++) {
    for (int near = -1; near <= 1; near++)
      twin_push(&pair, 2 * id++, 1, now + (INT64_C(1) << bit) + near);
    int64_t turned = now ^ (INT64_C(1) << bit);
    twin_push(&pair, 2 * id++, 1, turned < now ? now : turned);
    twin_check(&pair, 2);
    for (int i = 0; i < 15 && bit % 7 == 6; i++) {
      now = fw_deadlines_next(&pair.deadlines);
      CHECK(twin_pop(&pair, now));
      twin_check(&pair, 2);
    }
  }
  CHECK(twin_in_heap(&pair) > 100);
  twin_pop_due(&pair, FW_NEVER);
  CHECK_EQUAL(pair.size, 0);
  twin_close(&pair);
}

/* The ring grows while it is wrapped round. */
static void a_wrapped_ring_grows(void) {
  for (int offset = 0; offset < 40; offset++) {
    twin pair;
    twin_open(&pair, 1);
    uint64_t id = 0;
    for (int i = 0; i < offset; i++) {
      twin_push(&pair, 2 * id, 1, (int64_t)id);
      id++;
      CHECK(twin_pop(&pair, FW_NEVER));
    }
    for (int i = 0; i < 100; i++) {
      twin_push(&pair, 2 * id, 1, (int64_t)id);
      id++;
    }
    CHECK_EQUAL(pair.deadlines.length, 100);
    twin_pop_due(&pair, FW_NEVER);
    twin_close(&pair);
  }
}

static void neighbours_share_a_wake(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_push(&pair, 0, 1, 1000);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 1000); /* alone: at once */
  twin_push(&pair, 1, 1, 1000);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 1000); /* due together anyway */
  twin_push(&pair, 2, 1, 1051);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 1000); /* too far */
  twin_pop_due(&pair, 1000);
  twin_push(&pair, 3, 1, 1101);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 1101); /* ring */
  twin_pop_due(&pair, FW_NEVER);
  twin_push(&pair, 4, 1, 9000);
  twin_push(&pair, 5, 1, 3000);
  twin_push(&pair, 6, 1, 3020);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 3050); /* heap */
  twin_push(&pair, 7, 1, 2990);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 20), 3010); /* the one that was first is second now */
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 9), 2990);
  twin_pop_due(&pair, 3020);
  twin_push(&pair, 8, 1, 4095);
  twin_push(&pair, 9, 1, 4097);
  CHECK_EQUAL(fw_deadlines_wake(&pair.deadlines, 50), 4145); /* in different buckets */
  twin_close(&pair);
}

static void no_memory_leaves_what_there_was(void) {
  twin pair;
  twin_open(&pair, 1);
  pair.refuse = 1;
  twin_push(&pair, 0, 5, 100);
  CHECK_EQUAL(pair.size, 0);
  twin_push(&pair, 0, 5, 100);
  uint64_t id = 5;
  for (; id < 400; id++) {
    pair.refuse = id % 3 == 0; /* refuses only where something has to grow */
    twin_push(&pair, id, 1, id % 2 ? 100 + (int64_t)id : 50);
    twin_check(&pair, 10);
  }
  /* A bucket grows from 16 places on: of this range some ids may get in, the rest do not. */
  pair.refuse = 1;
  twin_push(&pair, id, 1000, 3);
  twin_pop_due(&pair, FW_NEVER);
  twin_close(&pair);
}

/* To take may need memory as well, for what has come nearer. Without it the run is at its end, and all is given back. */
static void a_pop_without_memory(void) {
  twin pair;
  twin_open(&pair, 1);
  twin_push(&pair, 0, 1, 100000);
  for (uint64_t id = 1; id < 100; id++)
    twin_push(&pair, id, 1, 90000 - (int64_t)id * 7);
  pair.refuse = 1;
  fw_range range;
  CHECK_EQUAL(fw_deadlines_pop(&pair.deadlines, FW_NEVER, &range), -ENOMEM);
  twin_close(&pair);
}

/* A bucket that was large gives its memory back when it is empty: a long run must not keep what its busiest moment took. */
static void large_buckets_give_back(void) {
  twin pair;
  twin_open(&pair, 1);
  enum { MANY = 1000000 };
  fw_deadlines *d = &pair.deadlines;
  CHECK_EQUAL(fw_deadlines_push(d, 0, 1, INT64_C(1) << 40), 0);
  for (uint64_t id = 1; id <= MANY; id++)
    CHECK_EQUAL(fw_deadlines_push(d, id, 1, (INT64_C(1) << 30) + (int64_t)(id * 7919 % MANY)), 0);
  size_t most = pair.arena.bytes;
  int64_t last_ns = 0;
  for (uint64_t i = 0; i < MANY; i++) {
    fw_range range = {.count = 0};
    CHECK_EQUAL(fw_deadlines_pop(d, FW_NEVER, &range), 1);
    CHECK_EQUAL(range.count, 1);
    CHECK(range.deadline_ns >= last_ns);
    last_ns = range.deadline_ns;
  }
  CHECK_EQUAL(fw_deadlines_next(d), INT64_C(1) << 40);
  CHECK(pair.arena.peak_bytes < 3 * most); /* while one bucket moves down into the others */
  CHECK(pair.arena.bytes < most / 2);
  twin_close(&pair);
}

int main(int argc, char **argv) {
  if (check_short(argc, argv))
    operations = 5000;
  TEST(nothing);
  TEST(equal_deadlines_are_one_range);
  TEST(falling_deadlines_go_to_the_heap);
  TEST(equal_deadlines_of_ring_and_heap_come_by_id);
  TEST(equal_deadlines_come_in_a_fixed_order);
  TEST(every_distance_in_time);
  TEST(a_wrapped_ring_grows);
  TEST(neighbours_share_a_wake);
  TEST(no_memory_leaves_what_there_was);
  TEST(a_pop_without_memory);
  TEST(large_buckets_give_back);
  TEST(random_walks);
  return check_report();
}
