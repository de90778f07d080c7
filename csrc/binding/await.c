/* await: one item in the hands of a worker, from the call of the action to the end of what it gave to await. */
#include "callables.h"

static long call_for_long(PyObject *object, const char *method) {
  PyObject *result = PyObject_CallMethod(object, method, NULL);
  long value = result == NULL ? -1 : PyLong_AsLong(result);
  Py_XDECREF(result);
  PyErr_Clear(); /* a task of a foreign make may lack it */
  return value;
}

/* A cancellation that has been dealt with must not be counted against the worker's next item. */
static void forget_cancellations(WorkerObject *worker) {
  if (worker->task == NULL)
    return;
  long asked = call_for_long(worker->task, "cancelling");
  while (asked-- > 0)
    call_for_long(worker->task, "uncancel");
}

/* Whoever cancels the run's own task does so before any task is stepped again: a loop that shuts down cancels all at once. */
static int owner_is_cancelled(const FeedObject *feed) {
  return feed->owner_task != NULL && call_for_long(feed->owner_task, "cancelling") > 0;
}

static int is_cancelled_error(const FeedObject *feed, PyObject *exception) {
  return feed->cancelled_error != NULL && PyErr_GivenExceptionMatches(exception, feed->cancelled_error);
}

/* The item ends as its awaitable did: with a value, or with the exception that is set where that is NULL. */
void fw_item_finish(WorkerObject *worker, PyObject *value) {
  FeedObject *feed = worker->feed;
  fw_ticket *ticket = &worker->ticket;
  int reason = worker->reason;
  int64_t now_ns = worker->now_ns = fw_feed_now(feed);
  worker->reason = FW_OK;
  Py_CLEAR(worker->inner);
  PyObject *exception = value == NULL ? fw_catch() : NULL;
  int cancelled = exception != NULL && is_cancelled_error(feed, exception);
  if (cancelled && reason == FW_OK && owner_is_cancelled(feed)) {
    reason = FW_CANCELLED;
    fw_feed_stop(feed, FW_STOP_CANCEL);
  }
  if (reason == FW_TIMED_OUT && (exception == NULL || !fw_ends_run(exception))) {
    Py_XDECREF(value);
    fw_feed_finish(feed, ticket, now_ns, FW_TIMED_OUT, NULL, fw_timeout_error(feed, ticket->index, exception));
  } else if (cancelled && reason == FW_CANCELLED) {
    Py_DECREF(exception);
    fw_feed_finish(feed, ticket, now_ns, FW_CANCELLED, NULL, NULL);
  } else if (exception != NULL) {
    fw_feed_finish_raised(feed, ticket, now_ns, exception);
  } else {
    fw_feed_finish(feed, ticket, now_ns, FW_OK, value, NULL);
  }
  if (cancelled || reason != FW_OK)
    forget_cancellations(worker);
}

/* What to send to for the value of an awaitable; NULL with an exception set. */
PyObject *fw_awaited(PyObject *awaitable) {
  PyAsyncMethods *async = Py_TYPE(awaitable)->tp_as_async;
  if (PyCoro_CheckExact(awaitable) || PyGen_CheckExact(awaitable) || async == NULL || async->am_await == NULL)
    return Py_NewRef(awaitable);
  return async->am_await(awaitable);
}

/* Calls the action for the worker's ticket. Afterwards there is something to await, or the item has ended. */
void fw_item_begin(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  fw_ticket *ticket = &worker->ticket;
  if (feed->item_timeout_ns != FW_NEVER) {
    PyObject *now = PyObject_CallNoArgs(feed->loop_time);
    worker->deadline = (now == NULL ? 0 : PyFloat_AsDouble(now)) + feed->item_timeout;
    Py_XDECREF(now);
    PyErr_Clear();
  }
  PyObject *result = ticket->awaitable;
  ticket->awaitable = NULL;
  if (result == NULL)
    result = fw_feed_call(feed, ticket, feed->setup_value);
  if (result == NULL || !fw_is_awaitable(result)) {
    fw_item_finish(worker, result);
    return;
  }
  if (PyContext_Enter(ticket->context) == 0) {
    worker->inner = fw_awaited(result);
    PyContext_Exit(ticket->context);
  }
  Py_DECREF(result);
  if (worker->inner == NULL)
    fw_item_finish(worker, NULL);
}

/* A step begins or goes on with `thrown` where nothing is being awaited. 1: the worker goes on, for it was not meant. */
int fw_worker_outlives(WorkerObject *worker, PyObject *thrown) {
  FeedObject *feed = worker->feed;
  if (!is_cancelled_error(feed, thrown))
    return 0;
  if (owner_is_cancelled(feed))
    fw_feed_stop(feed, FW_STOP_CANCEL);
  forget_cancellations(worker);
  return 1;
}

/* Sends None, or throws, into what is being awaited. */
static PySendResult push(WorkerObject *worker, PyObject *thrown, PyObject **value) {
  if (thrown == NULL)
    return PyIter_Send(worker->inner, Py_None, value);
  PyObject *method = PyObject_GetAttrString(worker->inner, "throw");
  if (method == NULL) { /* an iterator that knows only next(): the await itself raises */
    PyErr_SetObject((PyObject *)Py_TYPE(thrown), thrown);
    return PYGEN_ERROR;
  }
  *value = PyObject_CallOneArg(method, thrown);
  Py_DECREF(method);
  if (*value != NULL)
    return PYGEN_NEXT;
  if (!PyErr_ExceptionMatches(PyExc_StopIteration))
    return PYGEN_ERROR;
  PyObject *end = fw_catch();
  *value = PyObject_GetAttrString(end, "value");
  Py_DECREF(end);
  return *value == NULL ? PYGEN_ERROR : PYGEN_RETURN;
}

PySendResult fw_item_push(WorkerObject *worker, PyObject *thrown, PyObject **value) {
  PyObject *context = worker->ticket.context;
  if (context == NULL)
    return push(worker, thrown, value);
  if (PyContext_Enter(context) < 0)
    return PYGEN_ERROR;
  PySendResult result = push(worker, thrown, value);
  if (PyContext_Exit(context) < 0 && result != PYGEN_ERROR) {
    Py_CLEAR(*value);
    result = PYGEN_ERROR;
  }
  return result;
}
