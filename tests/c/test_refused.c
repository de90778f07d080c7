/* test_refused: each call that asks the system or libuv for something is refused in turn. Linked with --wrap for each __wrap_
   below, as tests/test_c.py reads them from here; a run must give the error, or do with less, and leave nothing behind. */
#include "check.h"
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <uv.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif

static const char *refused_name; /* what was refused; NULL: nothing yet */
static int calls, refuse_at, only_threads;

static int is_refused(const char *name) {
  if (refuse_at == 0 || ++calls != refuse_at)
    return 0;
  refused_name = name;
  return 1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  if (only_threads || !is_refused("open"))
    return __real_open(path, flags);
  errno = EMFILE;
  return -1;
}

#ifdef __linux__
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags) {
  if (only_threads || !is_refused("timerfd_create"))
    return __real_timerfd_create(clock, flags);
  errno = EMFILE;
  return -1;
}
#endif

int __real_uv_loop_init(uv_loop_t *loop);
int __wrap_uv_loop_init(uv_loop_t *loop);
int __wrap_uv_loop_init(uv_loop_t *loop) {
  return !only_threads && is_refused("uv_loop_init") ? UV_EMFILE : __real_uv_loop_init(loop);
}

int __real_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd) {
  return !only_threads && is_refused("uv_poll_init") ? UV_EPERM : __real_uv_poll_init(loop, poll, fd);
}

int __real_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback);
int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback);
int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback) {
  return !only_threads && is_refused("uv_poll_start") ? UV_EPERM : __real_uv_poll_start(poll, events, callback);
}

int __real_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback);
int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback);
int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback) {
  return !only_threads && is_refused("uv_async_init") ? UV_EMFILE : __real_uv_async_init(loop, async, callback);
}

int __real_uv_mutex_init(uv_mutex_t *mutex);
int __wrap_uv_mutex_init(uv_mutex_t *mutex);
int __wrap_uv_mutex_init(uv_mutex_t *mutex) {
  return !only_threads && is_refused("uv_mutex_init") ? UV_ENOMEM : __real_uv_mutex_init(mutex);
}

int __real_uv_cond_init(uv_cond_t *cond);
int __wrap_uv_cond_init(uv_cond_t *cond);
int __wrap_uv_cond_init(uv_cond_t *cond) {
  return !only_threads && is_refused("uv_cond_init") ? UV_ENOMEM : __real_uv_cond_init(cond);
}

/* A system that has no more threads has none a moment later either. */
int __real_uv_thread_create_ex(uv_thread_t *thread, const uv_thread_options_t *options, uv_thread_cb entry, void *argument);
int __wrap_uv_thread_create_ex(uv_thread_t *thread, const uv_thread_options_t *options, uv_thread_cb entry, void *argument);
int __wrap_uv_thread_create_ex(uv_thread_t *thread, const uv_thread_options_t *options, uv_thread_cb entry, void *argument) {
  if (only_threads && refuse_at > 0 && calls >= refuse_at)
    return UV_EAGAIN;
  return is_refused("uv_thread_create_ex") ? UV_EAGAIN : __real_uv_thread_create_ex(thread, options, entry, argument);
}

static void init(trial *t, const char *action, int pulled, int timer) {
  trial_init(t, "bounded", action, 30, 8);
  trial_time(t, "constant", 100 * US, 0);
  t->plan.is_virtual = 0;
  t->plan.timer = timer;
  if (pulled)
    trial_pull(t, 30);
}

/* Gives whether there was still a call to refuse. */
static int run_refusing(const char *action, int pulled, int timer, int at) {
  static char text[120];
  trial t;
  init(&t, action, pulled, timer);
  calls = 0;
  refused_name = NULL;
  refuse_at = at;
  trial_run(&t);
  refuse_at = 0;
  snprintf(text, sizeof text, "%s%s, %s refused", action, pulled ? ", pulled" : "",
           refused_name == NULL ? "nothing" : refused_name);
  check_context(text);
  int does_with_less = t.outcome.threads_refused && t.outcome.threads > 0; /* all but the first thread */
  if (refused_name == NULL || does_with_less)
    trial_expect(&t, 30, 0, 0, 0, 0);
  else
    CHECK(t.rc < 0);
  trial_close(&t);
  return refused_name != NULL;
}

static void check_each(const char *action, int pulled, int timer) {
  int at = 1;
  while (at < 200 && run_refusing(action, pulled, timer, at))
    at++;
  CHECK(at > 1 && at < 200);
}

static void each_call_is_refused(void) {
  for (int pulled = 0; pulled < 2; pulled++) {
    check_each("delay", pulled, FW_TIMER_BEST);
    check_each("delay", pulled, FW_TIMER_UV);
    check_each("service", pulled, FW_TIMER_BEST);
    check_each("cpu", pulled, FW_TIMER_BEST);
  }
}

/* The system gives `given` threads and no more. */
static void a_run_does_with_the_threads_it_gets(void) {
  static const char *const strategies[] = {"for_each", "bounded", "when_all", "chunked"};
  static char text[80];
  only_threads = 1;
  for (int s = 0; s < 4; s++)
    for (int pulled = 0; pulled < 2; pulled++)
      for (int given = 1; given < 4; given++) {
        snprintf(text, sizeof text, "%s%s on %d threads", strategies[s], pulled ? ", pulled" : "", given);
        check_context(text);
        trial t;
        trial_init(&t, strategies[s], "cpu", 60, s == 2 ? 0 : 20);
        trial_time(&t, "constant", 300 * US, 0);
        t.plan.is_virtual = 0;
        if (pulled)
          trial_pull(&t, 60);
        calls = 0;
        refuse_at = given + 1;
        trial_run(&t);
        refuse_at = 0;
        trial_expect(&t, 60, 0, 0, 0, 0);
        CHECK_EQUAL(t.outcome.threads, given);
        CHECK(t.outcome.threads_refused);
        /* A window can be narrowed, so what cannot run is not started either; a chunk cannot. */
        CHECK_EQUAL(t.ledger.counts.limit, s < 2 ? (uint64_t)given : t.limit);
        trial_close(&t);
      }
  only_threads = 0;
}

int main(void) {
  TEST(trial_warm_up);
  TEST(each_call_is_refused);
  TEST(a_run_does_with_the_threads_it_gets);
  return check_report();
}
