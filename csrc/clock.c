/* clock: an absolute timerfd polled by libuv; a uv_timer_t where there is no timerfd. */
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

enum { DESCRIPTORS = 8 }; /* what a loop with its signal pipes, its timerfd and its wake-up needs */

int64_t fw_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* libuv aborts where it finds too few descriptors, and where it has to close one of the standard streams' numbers: so there
   must be enough, and those numbers stay taken while the loop lives. */
static int prove_descriptors(fw_clock *clock) {
  int fds[DESCRIPTORS], count = 0, rc = 0;
  while (count < DESCRIPTORS) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      rc = -errno;
      break;
    }
    if (fd <= STDERR_FILENO)
      clock->held[clock->held_count++] = fd;
    else
      fds[count++] = fd;
  }
  while (count-- > 0)
    close(fds[count]);
  return rc;
}

static void release_held(fw_clock *clock) {
  while (clock->held_count > 0)
    close(clock->held[--clock->held_count]);
}

/* That time has come is all a wait needs to know: the engine looks at the deadlines itself. */
static void on_timerfd(uv_poll_t *watcher, int status, int events) { (void)watcher, (void)status, (void)events; }

/* libuv up to 1.44 runs timers before it polls: without this it would go on to wait for something else, for ever. */
static void on_timer(uv_timer_t *watcher) { uv_stop(watcher->loop); }

static void on_woken(uv_async_t *watcher) { (void)watcher; }

static int open_watcher(fw_clock *clock, int timer) {
  clock->timer_fd = -1;
#ifdef __linux__
  if (timer == FW_TIMER_BEST) {
    clock->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (clock->timer_fd < 0)
      return -errno;
    int rc = uv_poll_init(&clock->loop, &clock->watcher.poll, clock->timer_fd);
    return rc < 0 ? rc : uv_poll_start(&clock->watcher.poll, UV_READABLE, on_timerfd);
  }
#endif
  (void)timer;
  return uv_timer_init(&clock->loop, &clock->watcher.timer);
}

int fw_clock_open_loop(fw_clock *clock, int timer) {
  int rc = prove_descriptors(clock);
  if (rc == 0)
    rc = uv_loop_init(&clock->loop);
  if (rc < 0) {
    release_held(clock);
    return rc;
  }
  clock->has_loop = 1;
  rc = open_watcher(clock, timer);
  return rc < 0 ? rc : uv_async_init(&clock->loop, &clock->woken, on_woken);
}

/* One that was not initialised is all zero. */
static void close_handle(void *handle) {
  if (uv_handle_get_type(handle) != UV_UNKNOWN_HANDLE)
    uv_close(handle, NULL);
}

void fw_clock_close(fw_clock *clock) {
  close_handle(&clock->woken);
  close_handle(&clock->watcher);
  if (clock->timer_fd >= 0)
    close(clock->timer_fd);
  release_held(clock);
}

void fw_clock_arm(fw_clock *clock, int64_t until_ns) {
#ifdef __linux__
  if (clock->timer_fd >= 0) {
    /* Setting it anew also clears an expiry nobody has read: one system call less at every wake. */
    int64_t at = clock->origin_ns + until_ns;
    struct itimerspec when = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
    timerfd_settime(clock->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    return;
  }
#endif
  /* libuv rounds its own clock down to whole milliseconds, so a wait may end early; the engine then arms it again. */
  int64_t left = until_ns - fw_clock_now(clock);
  uv_update_time(&clock->loop);
  uv_timer_start(&clock->watcher.timer, on_timer, left <= 0 ? 0 : (uint64_t)((left + NS_PER_MS - 1) / NS_PER_MS), 0);
}

void fw_clock_wake(fw_clock *clock) {
  if (clock->has_loop)
    uv_async_send(&clock->woken);
}
