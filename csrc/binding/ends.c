/* ends: writes down how an item ended, and what that means for its run. */
#include "callables.h"

enum { TRACEBACKS_KEPT = 100 };

/* A run may have more failures than fit into memory with all that their frames hold. */
static int keep_failure(FeedObject *feed, const fw_ticket *ticket, PyObject *exception) {
  uint64_t kept = (uint64_t)PyList_GET_SIZE(feed->failures);
  if (kept >= TRACEBACKS_KEPT && PyException_SetTraceback(exception, Py_None) < 0)
    return -1;
  if (kept >= feed->failures_kept)
    return 0;
  PyObject *row = Py_BuildValue("(KOO)", (unsigned long long)ticket->index, ticket->item, exception);
  int rc = row == NULL ? -1 : PyList_Append(feed->failures, row);
  Py_XDECREF(row);
  return rc;
}

/* (index, item, state, result, exception, start_ns, finish_ns) */
static int put_out(FeedObject *feed, const fw_ticket *ticket, int64_t now_ns, int state, PyObject *result, PyObject *exception) {
  PyObject *row =
      Py_BuildValue("(KOiOOLL)", (unsigned long long)ticket->index, ticket->item, state, result == NULL ? Py_None : result,
                    exception == NULL ? Py_None : exception, (long long)ticket->start_ns, (long long)now_ns);
  int rc = row == NULL ? -1 : PyList_Append(feed->outbox, row);
  Py_XDECREF(row);
  if (++feed->held >= feed->buffer && feed->held_since_ns == 0)
    feed->held_since_ns = now_ns;
  return rc;
}

void fw_feed_finish(FeedObject *feed, fw_ticket *ticket, int64_t now_ns, int state, PyObject *result, PyObject *exception) {
  int rc = 0, was_running = feed->ledger->stop == FW_RUNNING;
  if (!feed->abandoned) {
    fw_ledger_finish(feed->ledger, ticket->index, 1, ticket->start_ns, now_ns, state);
    if (feed->outbox != NULL)
      rc = put_out(feed, ticket, now_ns, state, result, exception);
    else if (exception != NULL)
      rc = keep_failure(feed, ticket, exception);
    if (feed->results != NULL && result != NULL) {
      PyObject *nothing = PyList_GET_ITEM(feed->results, (Py_ssize_t)ticket->index);
      PyList_SET_ITEM(feed->results, (Py_ssize_t)ticket->index, result);
      result = nothing;
    }
  }
  Py_XDECREF(result);
  Py_XDECREF(exception);
  fw_ticket_clear(ticket);
  if (rc < 0)
    fw_feed_raise(feed, FW_STOP_SOURCE, fw_catch());
  else if (was_running && feed->ledger->stop != FW_RUNNING)
    fw_feed_stop(feed, feed->ledger->stop);
  if (feed->reader != NULL && feed->outbox != NULL)
    fw_feed_tell(&feed->reader);
}

/* `cause` becomes the cause of a new exception. */
static PyObject *new_error(PyObject *type, PyObject *text, PyObject *cause) {
  PyObject *error = text == NULL ? NULL : PyObject_CallOneArg(type, text);
  Py_XDECREF(text);
  if (error == NULL)
    PyErr_Clear(); /* no memory for the words: the cause alone will have to do */
  if (error == NULL || cause == NULL)
    return error == NULL ? cause : error;
  PyException_SetCause(error, cause);
  return error;
}

PyObject *fw_timeout_error(const FeedObject *feed, uint64_t index, PyObject *cause) {
  PyObject *text;
  if (feed->ledger->stop == FW_STOP_TIMEOUT)
    text = PyUnicode_FromFormat("item %llu was in flight when the total_timeout of %S s was over", (unsigned long long)index,
                                feed->total_timeout_text);
  else
    text = PyUnicode_FromFormat("item %llu took longer than its item_timeout of %S s", (unsigned long long)index,
                                feed->item_timeout_text);
  return new_error(PyExc_TimeoutError, text, cause);
}

int fw_ends_run(PyObject *exception) {
  return PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt) ||
         PyErr_GivenExceptionMatches(exception, PyExc_SystemExit);
}

void fw_feed_finish_raised(FeedObject *feed, fw_ticket *ticket, int64_t now_ns, PyObject *exception) {
  if (fw_ends_run(exception)) {
    if (!feed->abandoned)
      fw_feed_raise(feed, FW_STOP_INTERRUPT, Py_NewRef(exception));
  } else if (feed->cancelled_error != NULL && PyErr_GivenExceptionMatches(exception, feed->cancelled_error)) {
    PyObject *text =
        PyUnicode_FromFormat("item %llu raised CancelledError, but nobody cancelled it", (unsigned long long)ticket->index);
    exception = new_error(PyExc_RuntimeError, text, exception);
  }
  fw_feed_finish(feed, ticket, now_ns, FW_FAILED, NULL, exception);
}
