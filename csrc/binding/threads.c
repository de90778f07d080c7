/* threads: the two sides of a run on threads. Each thread of the run is in `work`; the calling thread is in `attend`, where it
   pulls from sources that run Python code and learns when to start one more thread. */
#include "callables.h"

#include <time.h>

/* Threads woken at once for items that lie ready. A woken thread wakes the next before it begins its own item, so that items
   which are done at once do not wake the whole crew. */
enum { WAKE_AT_ONCE = 4 };

/* How long a thread may work without a look at who else wants the GIL: the interpreter's own switch interval. An action that is
   no Python function would never let go of it. */
#define SWITCH_NS INT64_C(5000000)

struct fw_idler {
  PyThread_type_lock lock; /* owned; held but for the moment of waking */
  fw_idler *next;
};

/* What the calling thread should do now. */
int fw_threads_to_do(const FeedObject *feed) {
  if (feed->handing_over)
    return feed->working + feed->starting == 0 ? FW_DO_LEAVE : FW_DO_NOTHING;
  if (fw_feed_over(feed))
    return feed->hired == 0 && feed->create_task == NULL ? FW_DO_LEAVE : FW_DO_NOTHING;
  uint64_t room = fw_feed_may_start(feed), queued = feed->offered.count;
  if (feed->create_task != NULL)
    return feed->by_offer && !feed->ended && room > queued ? FW_DO_PULL : FW_DO_NOTHING;
  uint64_t coming = feed->idle_count + feed->waking + feed->starting;
  int can_hire = feed->hired < feed->most_hired;
  if (feed->by_offer) {
    if (queued > coming && can_hire)
      return FW_DO_HIRE;
    return !feed->ended && room > queued && (queued < coming || can_hire) ? FW_DO_PULL : FW_DO_NOTHING;
  }
  uint64_t left = feed->known - feed->ledger->counts.started; /* of an unknown length: more than any room */
  if (left == 0 && feed->hired == 0) /* no thread is worth its start before the source has shown an item against its word */
    return queued > 0 ? FW_DO_HIRE : FW_DO_PULL;
  if (!can_hire || coming >= (room < left ? room : left))
    return FW_DO_NOTHING;
  /* One new thread at a time, so that there are never more than items; where each begins with a setup, as many as have found an
     item, or all that a known length needs. */
  uint64_t at_once = 1, seasoned = feed->hired - feed->starting;
  if (feed->has_setup)
    at_once = feed->known != FW_UNKNOWN ? feed->known : seasoned > 1 ? seasoned : 1;
  return feed->starting < at_once ? FW_DO_HIRE : FW_DO_NOTHING;
}

static void wake_one(FeedObject *feed) {
  fw_idler *idler = feed->idle;
  feed->idle = idler->next;
  feed->idle_count--;
  feed->waking++;
  PyThread_release_lock(idler->lock);
}

void fw_threads_kick(FeedObject *feed) {
  int all = fw_feed_over(feed) || feed->handing_over;
  uint64_t ready = feed->by_offer ? feed->offered.count : fw_feed_may_start(feed);
  uint64_t wanted = ready < WAKE_AT_ONCE ? ready : WAKE_AT_ONCE;
  while (feed->idle != NULL && (all || feed->waking < wanted))
    wake_one(feed);
}

/* Waits until there may be an item. 0, or -1 with an exception set. */
static int idle(FeedObject *feed, fw_idler *self) {
  if (self->lock == NULL) {
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
  }
  self->next = feed->idle;
  feed->idle = self;
  feed->idle_count++;
  fw_feed_kick(feed); /* the calling thread may now pull for us; or an item has come since we looked */
  Py_BEGIN_ALLOW_THREADS
  PyThread_acquire_lock(self->lock, WAIT_LOCK);
  Py_END_ALLOW_THREADS
  feed->waking--;
  return 0;
}

/* A sync item that came too late keeps its slot until it ends, and then says so. */
static void finish(FeedObject *feed, fw_ticket *ticket, PyObject *result, int64_t now_ns) {
  PyObject *exception = result == NULL ? fw_catch() : NULL;
  int late = now_ns - ticket->start_ns > feed->item_timeout_ns || feed->ledger->stop == FW_STOP_TIMEOUT;
  if (late && (exception == NULL || !fw_ends_run(exception))) {
    Py_XDECREF(result);
    fw_feed_finish(feed, ticket, now_ns, FW_TIMED_OUT, NULL, fw_timeout_error(feed, ticket->index, exception));
  } else if (exception != NULL) {
    fw_feed_finish_raised(feed, ticket, now_ns, exception);
  } else {
    fw_feed_finish(feed, ticket, now_ns, FW_OK, result, NULL);
  }
}

/* The first awaitable shows that the action is async after all: the threads take no more items, and the asyncio driver goes on
   with this one. */
static void hand_over(FeedObject *feed, fw_ticket *ticket, PyObject *awaitable) {
  ticket->awaitable = awaitable;
  if (feed->halted) {
    fw_feed_discard(feed, ticket);
    return;
  }
  feed->handing_over = 1;
  if (fw_queue_push(&feed->returned, *ticket) < 0)
    fw_feed_raise(feed, FW_STOP_SOURCE, fw_catch());
  *ticket = (fw_ticket){0};
  fw_feed_kick(feed);
}

static int64_t thread_cpu_ns(void) {
  struct timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec;
}

/* work([value]): runs items until there are no more. `value`: the second argument of the action. */
PyObject *fw_threads_work(FeedObject *feed, PyObject *const *args, Py_ssize_t count) {
  PyObject *value = count > 0 ? args[0] : NULL;
  fw_idler self = {0};
  fw_ticket ticket = {0};
  int64_t cpu_ns = thread_cpu_ns(), now_ns = fw_feed_now(feed), switched_ns = now_ns;
  int rc, failed = 0;
  feed->starting--;
  feed->working++;
  while (!failed && (rc = fw_feed_take(feed, &ticket, now_ns)) != FW_END) {
    if (rc == FW_WAIT) {
      failed = idle(feed, &self) < 0;
      now_ns = switched_ns = fw_feed_now(feed);
      continue;
    }
    PyObject *result = fw_feed_call(feed, &ticket, value);
    now_ns = fw_feed_now(feed);
    if (result != NULL && fw_is_awaitable(result))
      hand_over(feed, &ticket, result);
    else
      finish(feed, &ticket, result, now_ns);
    if (now_ns - switched_ns < SWITCH_NS)
      continue;
    Py_BEGIN_ALLOW_THREADS
    Py_END_ALLOW_THREADS
    now_ns = switched_ns = fw_feed_now(feed);
  }
  if (self.lock != NULL) {
    PyThread_release_lock(self.lock);
    PyThread_free_lock(self.lock);
  }
  feed->cpu_ns += thread_cpu_ns() - cpu_ns;
  feed->working--;
  if (feed->handing_over)
    fw_feed_kick(feed);
  if (failed)
    return NULL;
  Py_RETURN_NONE;
}

/* hire(): one more thread is about to start. */
PyObject *fw_threads_hire(FeedObject *feed, PyObject *Py_UNUSED(ignored)) {
  feed->hired++;
  feed->hired_ever++;
  feed->starting++;
  Py_RETURN_NONE;
}

/* leave(came): a thread is gone; `came`: it has been in work(). */
PyObject *fw_threads_leave(FeedObject *feed, PyObject *came) {
  int was_there = PyObject_IsTrue(came);
  if (was_there < 0)
    return NULL;
  feed->hired--;
  feed->starting -= (uint64_t)!was_there;
  fw_feed_kick(feed);
  Py_RETURN_NONE;
}

/* 1: rung or interrupted; 0: the time is over; -1 with an exception set. */
static int wait_for_bell(FeedObject *feed, int64_t until_ns) {
  int64_t left_us = (until_ns - fw_feed_now(feed)) / 1000;
  if (left_us <= 0)
    return 0;
  PyLockStatus status;
  feed->bell_armed = 1;
  Py_BEGIN_ALLOW_THREADS
  status = PyThread_acquire_lock_timed(feed->bell, left_us, 1);
  Py_END_ALLOW_THREADS
  if (!feed->bell_armed && status != PY_LOCK_ACQUIRED)
    PyThread_acquire_lock(feed->bell, NOWAIT_LOCK); /* it was rung in the last moment */
  feed->bell_armed = 0;
  if (PyErr_CheckSignals() < 0)
    return -1;
  return status != PY_LOCK_FAILURE;
}

/* attend(seconds): serves the run on the calling thread until there is something for Python to do, which it returns:
   "hire", "leave" (the last thread has left), "tick" (the time is over). */
PyObject *fw_threads_attend(FeedObject *feed, PyObject *seconds) {
  static const char *const names[] = {
      [FW_DO_NOTHING] = "tick", [FW_DO_HIRE] = "hire", [FW_DO_PULL] = "tick", [FW_DO_LEAVE] = "leave"};
  double wait = PyFloat_AsDouble(seconds);
  if (PyErr_Occurred())
    return NULL;
  int64_t until_ns = fw_feed_now(feed) + (int64_t)(wait * 1e9);
  if (feed->ledger->stop == FW_RUNNING && feed->deadline_ns < until_ns)
    until_ns = feed->deadline_ns;
  for (;;) {
    fw_feed_look(feed, fw_feed_now(feed));
    int todo = fw_threads_to_do(feed);
    if (todo == FW_DO_PULL) {
      PyObject *item;
      if (fw_feed_pull(feed, &item)) {
        int rc = fw_feed_offer(feed, item);
        Py_DECREF(item);
        if (rc < 0)
          return NULL;
      }
      if (fw_feed_now(feed) < until_ns || wait <= 0)
        continue;
    } else if (todo == FW_DO_NOTHING) {
      int rc = wait_for_bell(feed, until_ns);
      if (rc < 0)
        return NULL;
      if (rc > 0)
        continue;
    }
    return PyUnicode_FromString(names[todo]);
  }
}
