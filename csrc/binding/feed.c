/* feed: hands the items of a source to whoever works on them, and writes down how each ended. As Python it would read:

       def take(self):                       # one call, atomic under the GIL
           if self.stop or self.ended: return END
           if not may_start(self.counts): return WAIT
           item = next(self.iterator)        # or the oldest of those that were offered
           self.ledger.start(now)
           return Ticket(item, index, now, copy(self.context))
*/
#include "callables.h"

enum { SIGNALS_EVERY = 1024 };

/* As inspect.isawaitable has it. */
int fw_is_awaitable(PyObject *object) {
  if (PyCoro_CheckExact(object))
    return 1;
  PyAsyncMethods *async = Py_TYPE(object)->tp_as_async;
  if (async != NULL && async->am_await != NULL)
    return 1;
  if (!PyGen_CheckExact(object))
    return 0;
  PyObject *code = PyObject_GetAttrString(object, "gi_code");
  int found = code != NULL && PyCode_Check(code) && (((PyCodeObject *)code)->co_flags & CO_ITERABLE_COROUTINE) != 0;
  Py_XDECREF(code);
  PyErr_Clear();
  return found;
}

/* Calls once and forgets. Whoever cannot be told (a loop that was closed) is not there to be told. */
void fw_feed_tell(PyObject **whom) {
  PyObject *callable = *whom;
  if (callable == NULL)
    return;
  *whom = NULL;
  PyObject *result = PyObject_CallNoArgs(callable);
  if (result == NULL)
    PyErr_Clear();
  Py_XDECREF(result);
  Py_DECREF(callable);
}

uint64_t fw_feed_may_start(const FeedObject *feed) {
  fw_counts counts = feed->ledger->counts;
  if (feed->held >= feed->buffer)
    return 0;
  counts.started += (uint64_t)feed->taking;
  /* A limit that was lowered leaves more in flight than it allows. */
  if (counts.started - counts.finished >= counts.limit || counts.started >= counts.total)
    return 0;
  return fw_admit(feed->strategy, counts);
}

int fw_feed_over(const FeedObject *feed) {
  if (feed->returned.count > 0 && feed->create_task != NULL)
    return 0; /* a thread has started them; where they are not to run to their end, the stop has discarded them */
  if (feed->ended && feed->offered.count > 0 && feed->ledger->stop == FW_STOP_SOURCE)
    return feed->create_task != NULL; /* on their way to a thread when the source failed: they were as good as started */
  return feed->ledger->stop != FW_RUNNING || (feed->ended && feed->offered.count == 0);
}

void fw_feed_kick(FeedObject *feed) {
  if (feed->idle != NULL)
    fw_threads_kick(feed);
  if (feed->create_task != NULL)
    fw_workers_kick(feed);
  if (feed->listener == NULL && !feed->bell_armed)
    return;
  if (fw_threads_to_do(feed) == FW_DO_NOTHING && !(feed->by_offer && fw_feed_over(feed)))
    return;
  if (feed->bell_armed) {
    feed->bell_armed = 0;
    PyThread_release_lock(feed->bell);
  }
  fw_feed_tell(&feed->listener);
}

void fw_feed_discard(FeedObject *feed, fw_ticket *ticket) {
  PyObject *closed = PyObject_CallMethod(ticket->awaitable, "close", NULL);
  if (closed == NULL)
    PyErr_Clear(); /* futures have none */
  Py_XDECREF(closed);
  fw_feed_finish(feed, ticket, fw_feed_now(feed), FW_CANCELLED, NULL, NULL);
}

static void halt(FeedObject *feed) {
  feed->halted = 1;
  while (feed->returned.count > 0) {
    fw_ticket ticket = fw_queue_pop(&feed->returned);
    fw_feed_discard(feed, &ticket);
  }
  if (feed->alive > 0)
    fw_workers_cancel(feed);
}

void fw_feed_stop(FeedObject *feed, int cause) {
  fw_ledger_stop(feed->ledger, cause);
  if (cause != FW_STOP_SOURCE || !feed->drains)
    halt(feed);
  fw_feed_kick(feed);
}

void fw_feed_raise(FeedObject *feed, int cause, PyObject *exception) {
  if (feed->raised == NULL || cause > feed->ledger->stop)
    Py_XSETREF(feed->raised, exception);
  else
    Py_DECREF(exception);
  fw_feed_stop(feed, cause);
}

/* Whatever stops a run from outside is looked at before each start. */
void fw_feed_look(FeedObject *feed, int64_t now_ns) {
  int cancelled = feed->asked_to_stop || (feed->flag != NULL && atomic_load_explicit(feed->flag, memory_order_relaxed));
  if (cancelled && (feed->ledger->stop < FW_STOP_CANCEL || !feed->halted))
    fw_feed_stop(feed, FW_STOP_CANCEL);
  if (now_ns >= feed->deadline_ns && (feed->ledger->stop < FW_STOP_TIMEOUT || !feed->halted))
    fw_feed_stop(feed, FW_STOP_TIMEOUT);
}

/* Another thread than the loop's may have changed something, and only the loop's may act on it. */
void fw_feed_changed(FeedObject *feed) {
  if (feed->create_task == NULL) {
    fw_feed_look(feed, fw_feed_now(feed));
    fw_feed_kick(feed);
    return;
  }
  PyObject *governor = Py_XNewRef(feed->governor);
  fw_feed_tell(&governor);
}

void fw_feed_end(FeedObject *feed) {
  feed->ended = 1;
  Py_CLEAR(feed->iterator);
  feed->ledger->counts.total = feed->ledger->pulled;
  fw_feed_kick(feed);
}

/* A source that has raised may have had more items: its length stays unknown. */
static void fail_source(FeedObject *feed) {
  int cause = PyErr_ExceptionMatches(PyExc_Exception) ? FW_STOP_SOURCE : FW_STOP_INTERRUPT;
  feed->ended = 1;
  fw_feed_raise(feed, cause, fw_catch());
  Py_CLEAR(feed->iterator);
}

/* Workers on a loop are many tasks with a context each, but a generator that sets a variable wants to find it again: all its
   steps are in one context, that of `feed.close_source` included. */
static PyObject *next_of(FeedObject *feed, PyObject *iterator) {
  if (!feed->runs_bytecode)
    return Py_TYPE(iterator)->tp_iternext(iterator);
  if (PyContext_Enter(feed->source_context) < 0)
    return NULL;
  PyObject *item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (PyContext_Exit(feed->source_context) < 0)
    Py_CLEAR(item);
  return item;
}

int fw_feed_pull(FeedObject *feed, PyObject **item) {
  PyObject *iterator = Py_NewRef(feed->iterator);
  int64_t asked_ns = feed->runs_bytecode ? fw_feed_now(feed) : 0;
  feed->taking++;
  *item = next_of(feed, iterator);
  feed->taking--;
  if (feed->runs_bytecode)
    feed->pulling_ns += fw_feed_now(feed) - asked_ns;
  Py_DECREF(iterator);
  if (*item != NULL)
    return 1;
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration)) {
    fail_source(feed);
  } else {
    PyErr_Clear();
    fw_feed_end(feed);
  }
  return 0;
}

int fw_feed_give(FeedObject *feed, PyObject *items) {
  Py_XSETREF(feed->iterator, PyObject_GetIter(items));
  Py_XSETREF(feed->items, Py_NewRef(items));
  feed->ledger->pulled = feed->known = (uint64_t)PyList_GET_SIZE(items);
  feed->runs_bytecode = feed->by_offer = feed->ended = 0;
  return feed->iterator == NULL ? -1 : 0;
}

int fw_feed_read(FeedObject *feed) {
  PyObject *items = PyList_New(0), *item;
  int rc = items == NULL ? -1 : 0;
  while (rc == 0 && (item = next_of(feed, feed->iterator)) != NULL) {
    rc = PyList_Append(items, item);
    Py_DECREF(item);
    feed->ledger->pulled++;
    if (rc == 0 && PyList_GET_SIZE(items) % SIGNALS_EVERY == 0) {
      Py_BEGIN_ALLOW_THREADS /* an iterator in C runs no bytecode, which would let others have the GIL and see to signals */
      Py_END_ALLOW_THREADS
      rc = PyErr_CheckSignals();
      fw_feed_look(feed, fw_feed_now(feed));
      if (feed->ledger->stop != FW_RUNNING)
        break;
    }
  }
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration)) {
    fail_source(feed);
  } else {
    PyErr_Clear();
    if (feed->ledger->stop == FW_RUNNING && fw_feed_give(feed, items) < 0)
      fail_source(feed);
  }
  Py_XDECREF(items);
  return feed->ledger->stop == FW_RUNNING ? 0 : -1;
}

void fw_feed_abandon(FeedObject *feed) {
  fw_ledger *ledger = feed->ledger;
  int64_t now_ns = fw_feed_now(feed);
  if (ledger->latency != NULL)
    fw_ledger_finish(ledger, 0, fw_in_flight(ledger), 0, now_ns, FW_CANCELLED);
  else
    for (uint64_t i = 0; fw_in_flight(ledger) > 0; i++)
      if (ledger->state[i] == FW_IN_FLIGHT)
        fw_ledger_finish(ledger, i, 1, ledger->start_ns[i], now_ns, FW_CANCELLED);
  feed->abandoned = 1;
}

int fw_feed_offer(FeedObject *feed, PyObject *item) {
  if (fw_queue_push(&feed->offered, (fw_ticket){.item = Py_NewRef(item)}) < 0)
    return -1;
  feed->ledger->pulled++;
  fw_feed_kick(feed);
  return 0;
}

/* An item that came and cannot start: it was pulled, and no more. */
static int drop(FeedObject *feed, fw_ticket *ticket, int was_offered) {
  feed->ledger->pulled += !was_offered;
  fw_ticket_clear(ticket);
  return FW_END;
}

/* Numbers the item and stamps its start. Nothing in here can let another thread have the GIL, so that numbers are those of the
   source and start times never fall; where several threads take, `now_ns` may be older than another's start. */
static int start(FeedObject *feed, fw_ticket *ticket, int64_t now_ns) {
  ticket->index = feed->ledger->counts.started;
  ticket->start_ns = feed->working > 0 ? fw_feed_now(feed) : now_ns;
  if (feed->results != NULL && ticket->index >= (uint64_t)PyList_GET_SIZE(feed->results) &&
      PyList_Append(feed->results, Py_None) < 0)
    return -1;
  if (fw_ledger_start(feed->ledger, 1, ticket->start_ns) == 0)
    return 0;
  PyErr_NoMemory();
  return -1;
}

static int take_with(FeedObject *feed, PyObject *context, fw_ticket *ticket, int64_t now_ns) {
  if (fw_feed_over(feed) || feed->handing_over)
    return FW_END;
  int was_offered = feed->offered.count > 0;
  if (fw_feed_may_start(feed) == 0 || (feed->by_offer && !was_offered))
    return FW_WAIT;
  if (was_offered) {
    *ticket = fw_queue_pop(&feed->offered);
  } else {
    if (!fw_feed_pull(feed, &ticket->item))
      return FW_END;
    if (feed->runs_bytecode) {
      now_ns = fw_feed_now(feed);
      fw_feed_look(feed, now_ns);
    }
    if (feed->ledger->stop != FW_RUNNING)
      return drop(feed, ticket, was_offered);
  }
  ticket->context = Py_NewRef(context);
  if (start(feed, ticket, now_ns) == 0)
    return FW_TAKEN;
  PyObject *error = fw_catch();
  drop(feed, ticket, was_offered);
  fw_feed_raise(feed, FW_STOP_SOURCE, error);
  return FW_END;
}

static int take(FeedObject *feed, fw_ticket *ticket, int64_t now_ns) {
  fw_feed_look(feed, now_ns);
  if (feed->returned.count > 0 && !feed->handing_over) {
    *ticket = fw_queue_pop(&feed->returned);
    return FW_TAKEN;
  }
  *ticket = (fw_ticket){0};
  if (fw_feed_over(feed) || feed->handing_over)
    return FW_END;
  if (fw_feed_may_start(feed) == 0)
    return FW_WAIT;
  /* A new object may start the garbage collector, whose finalizers may let other threads run: all is decided after that. */
  PyObject *context = PyContext_Copy(feed->context);
  if (context == NULL) {
    fw_feed_raise(feed, FW_STOP_SOURCE, fw_catch());
    return FW_END;
  }
  int rc = take_with(feed, context, ticket, now_ns);
  Py_DECREF(context);
  return rc;
}

int fw_feed_take(FeedObject *feed, fw_ticket *ticket, int64_t now_ns) {
  int rc = take(feed, ticket, now_ns);
  if (rc != FW_END && (feed->idle != NULL || feed->parked != NULL || feed->listener != NULL || feed->bell_armed))
    fw_feed_kick(feed); /* a worker that got an item sees to it that the next one is taken too */
  return rc;
}

PyObject *fw_feed_call(FeedObject *feed, fw_ticket *ticket, PyObject *value) {
  PyObject *arguments[] = {NULL, ticket->item, value};
  if (PyContext_Enter(ticket->context) < 0)
    return NULL;
  PyObject *result =
      PyObject_Vectorcall(feed->action, arguments + 1, (value == NULL ? 1 : 2) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
  if (PyContext_Exit(ticket->context) < 0)
    Py_CLEAR(result);
  return result;
}
