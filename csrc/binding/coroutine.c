/* coroutine: _core.Worker, the coroutine inside the asyncio task of a worker, which awaits one item after the other. In Python:

       async def worker(feed):
           while (ticket := await feed.take()) is not END:
               try:
                   result = await ticket.context.run(feed.action, ticket.item)   # every send and throw in the item's context
               except BaseException as error:
                   feed.finish(ticket, error)
               else:
                   feed.finish(ticket, result)

   An item has no task of its own: what it awaits goes to the worker's task as it is, so that current_task(), asyncio.timeout and
   cancellation are those of the event loop. */
#include "callables.h"

/* How long the workers together may keep the loop busy with items that never wait, before others have their turn. */
#define SLICE_NS INT64_C(2000000)

void fw_worker_retire(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  if (feed == NULL)
    return;
  if (worker->future != NULL)
    fw_worker_unpark(worker);
  if (worker->fresh)
    feed->pending--;
  fw_worker_unlink(worker);
  worker->feed = NULL;
  Py_CLEAR(worker->task);
  Py_CLEAR(worker->inner);
  fw_feed_kick(feed);
  Py_DECREF(feed);
  Py_DECREF(worker); /* the feed's */
}

/* Something was handed to the event loop: the moment to start those who can use the time. */
static void on_suspended(WorkerObject *worker) {
  FeedObject *feed = worker->feed;
  if (worker->ticket.item == NULL)
    return;
  if (feed->ledger->stop == FW_RUNNING)
    fw_workers_spawn(feed, FW_UNKNOWN);
  else if (feed->halted && worker->reason == FW_OK)
    fw_worker_cancel(worker, fw_state_of_stop(feed)); /* it stopped the run itself, or was begun just then */
}

/* Takes the next item, or goes to wait for one. FW_TAKEN: there is something to await, or the item has ended already; FW_WAIT: it is
   the others' turn; FW_END. */
static int next_item(WorkerObject *worker, int64_t *slice_end_ns) {
  FeedObject *feed = worker->feed;
  int64_t now_ns = worker->now_ns != 0 ? worker->now_ns : fw_feed_now(feed);
  if (*slice_end_ns == 0)
    *slice_end_ns = now_ns + SLICE_NS / (int64_t)feed->alive;
  else if (now_ns > *slice_end_ns)
    return FW_WAIT;
  int rc = fw_feed_take(feed, &worker->ticket, now_ns);
  if (rc == FW_TAKEN)
    fw_item_begin(worker);
  if (rc != FW_WAIT)
    return rc;
  if (fw_worker_park(worker) == 0)
    return FW_TAKEN;
  fw_feed_raise(feed, FW_STOP_SOURCE, fw_catch());
  return FW_END;
}

static PySendResult go_on(WorkerObject *worker, PyObject *thrown, PyObject **out) {
  int64_t slice_end_ns = 0;
  worker->now_ns = 0;
  for (;;) {
    if (worker->inner == NULL) {
      if (thrown != NULL && !fw_worker_outlives(worker, thrown)) {
        PyErr_SetObject((PyObject *)Py_TYPE(thrown), thrown);
        return PYGEN_ERROR;
      }
      thrown = NULL;
      int rc = next_item(worker, &slice_end_ns);
      if (rc == FW_TAKEN)
        continue;
      *out = rc == FW_WAIT ? fw_turn_yield(worker->feed->turn) : Py_NewRef(Py_None);
      return rc == FW_WAIT ? PYGEN_NEXT : PYGEN_RETURN;
    }
    PyObject *value = NULL;
    PySendResult result = fw_item_push(worker, thrown, &value);
    thrown = NULL;
    if (result == PYGEN_NEXT) {
      on_suspended(worker);
      *out = value;
      if (value == Py_None) { /* a bare yield: the item gives way for one turn */
        Py_DECREF(value);
        *out = fw_turn_yield(worker->feed->turn);
      }
      return PYGEN_NEXT;
    }
    if (worker->future == NULL) {
      fw_item_finish(worker, value);
      continue;
    }
    fw_worker_unpark(worker);
    Py_XDECREF(value);
    if (result == PYGEN_ERROR) {
      PyObject *error = fw_catch();
      int goes_on = fw_worker_outlives(worker, error);
      if (!goes_on)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
      Py_DECREF(error);
      if (!goes_on)
        return PYGEN_ERROR;
    }
  }
}

/* One step of the task. `thrown` is borrowed; NULL: an ordinary step. */
static PySendResult step(WorkerObject *worker, PyObject *thrown, PyObject **out) {
  *out = NULL;
  if (worker->feed == NULL || worker->running) {
    PyErr_SetString(PyExc_RuntimeError, worker->running ? "the worker is running" : "the worker has ended");
    return PYGEN_ERROR;
  }
  if (worker->fresh)
    worker->feed->pending--;
  worker->fresh = 0;
  worker->running = 1;
  PySendResult result = go_on(worker, thrown, out);
  worker->running = 0;
  if (result == PYGEN_NEXT)
    return result;
  PyObject *error = result == PYGEN_ERROR ? fw_catch() : NULL;
  fw_worker_retire(worker);
  if (error != NULL)
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  return result;
}

static PySendResult worker_am_send(WorkerObject *worker, PyObject *sent, PyObject **out) {
  (void)sent;
  return step(worker, NULL, out);
}

/* As the protocol of iterators has it: a value that is returned becomes StopIteration. */
static PyObject *as_iterator(PySendResult result, PyObject *value) {
  if (result != PYGEN_RETURN)
    return value;
  Py_DECREF(value);
  PyErr_SetNone(PyExc_StopIteration);
  return NULL;
}

static PyObject *worker_next(WorkerObject *worker) {
  PyObject *value;
  PySendResult result = step(worker, NULL, &value);
  return as_iterator(result, value);
}

static PyObject *worker_send(WorkerObject *worker, PyObject *sent) {
  (void)sent;
  return worker_next(worker);
}

/* throw(exception), or in the older form throw(type[, value[, traceback]]) */
static PyObject *worker_throw(WorkerObject *worker, PyObject *const *args, Py_ssize_t count) {
  PyObject *value, *thrown = count == 0 ? Py_None : args[0];
  if (PyType_Check(thrown))
    thrown = count > 1 && PyExceptionInstance_Check(args[1]) ? Py_NewRef(args[1]) : PyObject_CallNoArgs(thrown);
  else
    Py_INCREF(thrown);
  if (thrown != NULL && !PyExceptionInstance_Check(thrown)) {
    PyErr_SetString(PyExc_TypeError, "throw needs an exception");
    Py_CLEAR(thrown);
  }
  if (thrown == NULL)
    return NULL;
  PySendResult result = step(worker, thrown, &value);
  Py_DECREF(thrown);
  return as_iterator(result, value);
}

/* The loop is gone, or nobody wants the run any more. */
static void close_worker(WorkerObject *worker) {
  if (worker->feed == NULL)
    return;
  if (worker->ticket.item != NULL) {
    PyObject *context = worker->ticket.context;
    if (worker->inner != NULL && PyContext_Enter(context) == 0) {
      PyObject *closed = PyObject_CallMethod(worker->inner, "close", NULL);
      if (closed == NULL)
        PyErr_Clear();
      Py_XDECREF(closed);
      PyContext_Exit(context);
    }
    fw_feed_finish(worker->feed, &worker->ticket, fw_feed_now(worker->feed), FW_CANCELLED, NULL, NULL);
  }
  fw_worker_retire(worker);
}

static PyObject *worker_close(WorkerObject *worker, PyObject *Py_UNUSED(ignored)) {
  if (worker->running) {
    PyErr_SetString(PyExc_RuntimeError, "the worker is running");
    return NULL;
  }
  close_worker(worker);
  Py_RETURN_NONE;
}

static void worker_finalize(WorkerObject *worker) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  close_worker(worker);
  PyErr_Restore(type, value, traceback);
}

WorkerObject *fw_worker_new(FeedObject *feed) {
  WorkerObject *worker = (WorkerObject *)feed->worker_type->tp_alloc(feed->worker_type, 0);
  if (worker == NULL)
    return NULL;
  worker->feed = (FeedObject *)Py_NewRef((PyObject *)feed);
  worker->fresh = 1;
  feed->pending++;
  fw_worker_link(worker);
  return worker;
}

static int worker_traverse(WorkerObject *worker, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(worker));
  Py_VISIT(worker->feed);
  Py_VISIT(worker->task);
  Py_VISIT(worker->ticket.item);
  Py_VISIT(worker->ticket.context);
  Py_VISIT(worker->ticket.awaitable);
  Py_VISIT(worker->inner);
  Py_VISIT(worker->future);
  return 0;
}

static int worker_clear(WorkerObject *worker) {
  close_worker(worker);
  return 0;
}

static void worker_dealloc(WorkerObject *worker) {
  if (PyObject_CallFinalizerFromDealloc((PyObject *)worker) < 0)
    return;
  PyTypeObject *type = Py_TYPE(worker);
  PyObject_GC_UnTrack(worker);
  type->tp_free(worker);
  Py_DECREF(type);
}

static PyObject *worker_name(WorkerObject *worker, void *closure) {
  (void)worker, (void)closure;
  return PyUnicode_FromString("fanwidth worker");
}

static PyObject *worker_awaits(WorkerObject *worker, void *closure) {
  (void)closure;
  return Py_NewRef(worker->inner == NULL ? Py_None : worker->inner);
}

static PyObject *worker_running(WorkerObject *worker, void *closure) {
  (void)closure;
  return PyBool_FromLong(worker->running);
}

static PyGetSetDef worker_getset[] = {
    {"__name__", (getter)worker_name, NULL, NULL, NULL},
    {"__qualname__", (getter)worker_name, NULL, NULL, NULL},
    {"cr_await", (getter)worker_awaits, NULL, "what is being awaited, or None", NULL},
    {"cr_running", (getter)worker_running, NULL, "whether it is being stepped", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef worker_methods[] = {
    {"send", (PyCFunction)worker_send, METH_O, "send(value): one step"},
    {"throw", (PyCFunction)(void (*)(void))worker_throw, METH_FASTCALL, "throw(exception): one step, into what is being awaited"},
    {"close", (PyCFunction)worker_close, METH_NOARGS, "close(): the item in its hands is cancelled"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot worker_slots[] = {
    {Py_tp_dealloc, worker_dealloc},
    {Py_tp_traverse, worker_traverse},
    {Py_tp_clear, worker_clear},
    {Py_tp_finalize, worker_finalize},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, worker_am_send},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, worker_next},
    {Py_tp_getset, worker_getset},
    {Py_tp_methods, worker_methods},
    {Py_tp_doc, "The coroutine of a worker of an asyncio run."},
    {0, NULL},
};

PyType_Spec fw_worker_spec = {
    .name = "fanwidth._core.Worker",
    .basicsize = sizeof(WorkerObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = worker_slots,
};
