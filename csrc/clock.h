/* clock.h: the two clocks. The real one owns a libuv loop whose one watcher stands for every deadline; the virtual one jumps. */
#ifndef FW_CLOCK_H
#define FW_CLOCK_H

#include "deadlines.h"

#include <uv.h>

enum { FW_TIMER_BEST, FW_TIMER_UV }; /* BEST: timerfd where there is one, else uv_timer_t */

typedef struct fw_clock {
  int is_virtual;
  int64_t origin_ns;  /* real: CLOCK_MONOTONIC at the run's start */
  int64_t virtual_ns; /* virtual: now */
  int has_loop;       /* real, and the action waits */
  int timer_fd;       /* -1: deadlines are on `timer` */
  int held[3];        /* descriptors below 3 that a caller without standard streams has free: libuv must not get them */
  int held_count;
  uv_loop_t loop;
  uv_async_t woken; /* brings a wait to its end from another thread */
  union {
    uv_poll_t poll;
    uv_timer_t timer;
  } watcher;
} fw_clock;

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t fw_monotonic_ns(void);

/* 0 or a negative errno: -EMFILE where fewer than 8 descriptors are free, for libuv would abort. Where `has_loop` is set after it,
   even by a failure, the loop must be closed by the engine, the only one to run it: fw_clock_close, then turns until
   uv_loop_close succeeds. */
int fw_clock_open_loop(fw_clock *clock, int timer);
void fw_clock_close(fw_clock *clock);

/* Sets the watcher to a time since the run's start. */
void fw_clock_arm(fw_clock *clock, int64_t until_ns);

/* Ends a wait of another thread, now or the next one. */
void fw_clock_wake(fw_clock *clock);

/* Nanoseconds since the run's start. */
static inline int64_t fw_clock_now(const fw_clock *clock) {
  return clock->is_virtual ? clock->virtual_ns : fw_monotonic_ns() - clock->origin_ns;
}

#endif
