/* workers: the workers of a run on an event loop: how many there are, who waits, who is cancelled. */
#include "callables.h"

void fw_worker_link(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  Py_INCREF(worker); /* an event loop holds its tasks weakly: nobody else would keep a parked worker */
  worker->next = feed->workers;
  if (worker->next != NULL)
    worker->next->previous = worker;
  feed->workers = worker;
  feed->alive++;
}

void fw_worker_unlink(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  if (worker->next != NULL)
    worker->next->previous = worker->previous;
  if (worker->previous != NULL)
    worker->previous->next = worker->next;
  else
    feed->workers = worker->next;
  feed->alive--;
}

int fw_worker_park(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  worker->future = PyObject_CallNoArgs(feed->create_future);
  worker->inner = worker->future == NULL ? NULL : fw_awaited(worker->future);
  if (worker->inner == NULL) {
    Py_CLEAR(worker->future);
    return -1;
  }
  worker->next_parked = feed->parked;
  feed->parked = worker;
  feed->parked_count++;
  return 0;
}

static void unlist(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  for (WorkerObject **link = &feed->parked; *link != NULL; link = &(*link)->next_parked) {
    if (*link != worker)
      continue;
    *link = worker->next_parked;
    feed->parked_count--;
    return;
  }
}

void fw_worker_unpark(WorkerObject *worker) {
  if (worker->woken)
    worker->feed->waking--;
  else
    unlist(worker); /* it was cancelled */
  worker->woken = 0;
  Py_CLEAR(worker->future);
  Py_CLEAR(worker->inner);
}

static void wake(FeedObject *feed) {
  WorkerObject *worker = feed->parked;
  feed->parked = worker->next_parked;
  feed->parked_count--;
  worker->woken = 1;
  feed->waking++;
  PyObject *result = PyObject_CallMethod(worker->future, "set_result", "O", Py_None);
  if (result == NULL)
    PyErr_Clear(); /* somebody has cancelled it: it comes all the same */
  Py_XDECREF(result);
}

/* Items that can be had now. */
static uint64_t ready(const FeedObject *feed) {
  uint64_t count = feed->offered.count;
  if (!feed->by_offer) {
    uint64_t left = feed->known - feed->ledger->counts.started; /* of an unknown length: more than any limit */
    if (left == 0 && (feed->alive == 0 || feed->parked_count > 0))
      left = 1; /* somebody has to ask the source for its end */
    count = fw_feed_may_start(feed);
    count = feed->ended ? 0 : count < left ? count : left;
  }
  return count + feed->returned.count;
}

static int create(FeedObject *feed) {
  WorkerObject *worker = fw_worker_new(feed);
  if (worker == NULL)
    return -1;
  PyObject *task = PyObject_CallOneArg(feed->create_task, (PyObject *)worker);
  int rc = task == NULL ? -1 : 0;
  if (rc < 0) {
    PyObject *error = fw_catch();
    fw_worker_retire(worker);
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
  } else if (worker->feed != NULL) { /* an eager task may have ended already */
    worker->task = Py_NewRef(task);
    if (worker->reason != FW_OK)
      fw_worker_cancel(worker, worker->reason);
  }
  Py_XDECREF(task);
  Py_DECREF(worker);
  return rc;
}

/* Of a source whose length nobody knows no more than twice as many workers are made as have found an item. The tasks of an eager
   loop run at once, and have taken their items when create_task returns. */
void fw_workers_spawn(FeedObject *feed, uint64_t most) {
  if (feed->spawning || feed->create_task == NULL)
    return;
  feed->spawning = 1;
  int guesses = feed->known == FW_UNKNOWN && !feed->by_offer && feed->ledger->counts.total == FW_UNKNOWN;
  int rc = 0;
  while (rc == 0 && most > 0 && !fw_feed_over(feed)) {
    uint64_t coming = feed->parked_count + feed->waking + feed->pending, wanted = ready(feed);
    if (wanted <= coming || feed->alive >= feed->ledger->counts.limit)
      break;
    wanted -= coming;
    if (wanted > feed->ledger->counts.limit - feed->alive)
      wanted = feed->ledger->counts.limit - feed->alive;
    if (guesses && feed->pending >= (feed->alive - feed->pending > 1 ? feed->alive - feed->pending : 1))
      break;
    if (guesses)
      wanted = 1;
    for (; rc == 0 && wanted > 0 && most > 0 && !fw_feed_over(feed); wanted--, most--)
      rc = create(feed);
  }
  feed->spawning = 0;
  if (rc < 0)
    fw_feed_raise(feed, FW_STOP_SOURCE, fw_catch());
}

void fw_workers_kick(FeedObject *feed) {
  int over = fw_feed_over(feed);
  uint64_t wanted = ready(feed);
  while (feed->parked != NULL && (over || feed->waking < wanted))
    wake(feed);
  if (feed->by_offer)
    fw_workers_spawn(feed, FW_UNKNOWN);
  if (over && feed->alive == 0)
    fw_feed_tell(&feed->closer);
}

void fw_worker_cancel(WorkerObject *worker, int reason) {
  worker->reason = reason;
  if (worker->task == NULL)
    return; /* an eager task in its first step: create() sees to it */
  PyObject *result = PyObject_CallMethod(worker->task, "cancel", NULL);
  if (result == NULL)
    PyErr_Clear();
  Py_XDECREF(result);
}

/* Cancels those with an item that are late by the loop's clock; all where `now` is infinite. The earliest deadline of the others goes
   to `next`. Cancelling runs the code of others, so who is meant is settled first. */
static int cancel_late(FeedObject *feed, double now, int reason, double *next) {
  PyObject *late = PyList_New(0);
  int rc = late == NULL ? -1 : 0;
  for (WorkerObject *worker = feed->workers; rc == 0 && worker != NULL; worker = worker->next) {
    if (worker->ticket.item == NULL || worker->reason != FW_OK)
      continue;
    if (now == Py_HUGE_VAL || worker->deadline <= now)
      rc = PyList_Append(late, (PyObject *)worker);
    else if (worker->deadline < *next)
      *next = worker->deadline;
  }
  for (Py_ssize_t i = 0; rc == 0 && i < PyList_GET_SIZE(late); i++) {
    WorkerObject *worker = (WorkerObject *)PyList_GET_ITEM(late, i);
    if (worker->ticket.item != NULL && !worker->running)
      fw_worker_cancel(worker, reason);
  }
  Py_XDECREF(late);
  return rc;
}

void fw_workers_cancel(FeedObject *feed) {
  double next;
  if (cancel_late(feed, Py_HUGE_VAL, fw_state_of_stop(feed), &next) < 0)
    PyErr_Clear(); /* no memory for the list: what is in flight runs to its end */
}

int fw_workers_expire(FeedObject *feed, double now, double *next) {
  *next = Py_HUGE_VAL;
  return cancel_late(feed, now, FW_TIMED_OUT, next);
}
