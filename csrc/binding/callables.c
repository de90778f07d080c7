/* callables: _core.Feed and _core.Worker as Python sees them; their attributes are in gauges.c, their work elsewhere. */
#include "callables.h"

#include <math.h>

/* Seconds, or None for never; in ns. 0, or -1 with an exception set. */
static int read_seconds(PyObject *value, double *seconds, int64_t *ns) {
  *seconds = Py_HUGE_VAL;
  *ns = FW_NEVER;
  if (value == Py_None)
    return 0;
  *seconds = PyFloat_AsDouble(value);
  if (*seconds < 9e9)
    *ns = (int64_t)ceil(*seconds * 1e9);
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *or_null(PyObject *value) { return value == Py_None ? NULL : Py_NewRef(value); }

static int open_results(FeedObject *self) {
  uint64_t known = self->known == FW_UNKNOWN ? 0 : self->known;
  if (known > PY_SSIZE_T_MAX)
    return PyErr_NoMemory(), -1;
  self->results = PyList_New((Py_ssize_t)known);
  for (uint64_t i = 0; self->results != NULL && i < known; i++)
    PyList_SET_ITEM(self->results, (Py_ssize_t)i, Py_NewRef(Py_None));
  return self->results == NULL ? -1 : 0;
}

static PyObject *feed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"action",
                          "iterator",
                          "strategy",
                          "limit",
                          "known",
                          "by_offer",
                          "runs_bytecode",
                          "samples",
                          "results",
                          "failures_kept",
                          "max_failures",
                          "buffer",
                          "cancel",
                          "item_timeout",
                          "total_timeout",
                          "item_timeout_text",
                          "total_timeout_text",
                          "has_setup",
                          "drains",
                          "most_threads",
                          "cancelled_error",
                          NULL};
  PyObject *action, *iterator, *limit, *known, *kept, *failures, *buffer, *cancel, *item_timeout, *total_timeout, *threads,
      *error;
  PyObject *item_text, *total_text;
  int strategy, by_offer, runs_bytecode, samples, results, has_setup, drains;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO$iOOppppOOOOOOUUppOO:Feed", names, &action, &iterator, &strategy, &limit,
                                   &known, &by_offer, &runs_bytecode, &samples, &results, &kept, &failures, &buffer, &cancel,
                                   &item_timeout, &total_timeout, &item_text, &total_text, &has_setup, &drains, &threads, &error))
    return NULL;
  PyObject *module = PyType_GetModule(type);
  FeedObject *self = module == NULL ? NULL : (FeedObject *)type->tp_alloc(type, 0);
  if (self == NULL)
    return NULL;
  double seconds;
  uint64_t most;
  if (strategy < 0 || strategy >= fw_strategy_count) {
    PyErr_Format(PyExc_ValueError, "there is no strategy number %d", strategy);
    goto fail;
  }
  self->strategy = &fw_strategies[strategy];
  if (fw_read_count(limit, &most) < 0 || fw_read_count(known, &self->known) < 0 ||
      fw_read_count(kept, &self->failures_kept) < 0 || fw_read_count(buffer, &self->buffer) < 0 ||
      fw_read_count(threads, &self->most_hired) < 0 ||
      read_seconds(item_timeout, &self->item_timeout, &self->item_timeout_ns) < 0 ||
      read_seconds(total_timeout, &seconds, &self->deadline_ns) < 0)
    goto fail;
  self->flag = cancel == Py_None ? NULL : fw_cancel_flag(module, cancel);
  if (cancel != Py_None && self->flag == NULL)
    goto fail;
  self->ledger_object = (PyObject *)fw_ledger_new(module, self->known, most, samples);
  if (self->ledger_object == NULL)
    goto fail;
  self->ledger = &((LedgerObject *)self->ledger_object)->ledger;
  self->ledger->counts.total = FW_UNKNOWN; /* until the source says so: a length is a promise only */
  if (fw_read_count(failures, &self->ledger->max_failures) < 0 || (results && open_results(self) < 0))
    goto fail;
  self->failures = PyList_New(0);
  self->outbox = buffer == Py_None ? NULL : PyList_New(0);
  self->context = PyContext_CopyCurrent();
  self->source_context = PyContext_CopyCurrent();
  self->bell = PyThread_allocate_lock();
  self->worker_type = (PyTypeObject *)PyObject_GetAttrString(module, "Worker");
  if (self->failures == NULL || (buffer != Py_None && self->outbox == NULL) || self->context == NULL ||
      self->source_context == NULL || self->bell == NULL || self->worker_type == NULL)
    goto fail;
  PyThread_acquire_lock(self->bell, WAIT_LOCK);
  self->action = Py_NewRef(action);
  self->iterator = or_null(iterator);
  self->token = or_null(cancel);
  self->cancelled_error = or_null(error);
  self->item_timeout_text = Py_NewRef(item_text);
  self->total_timeout_text = Py_NewRef(total_text);
  self->by_offer = by_offer;
  self->runs_bytecode = runs_bytecode;
  self->has_setup = has_setup;
  self->drains = drains;
  self->origin_ns = fw_monotonic_ns();
  return (PyObject *)self;
fail:
  if (!PyErr_Occurred())
    PyErr_NoMemory();
  Py_DECREF(self);
  return NULL;
}

/* Every owned reference but those in the queues. */
#define FOR_REFERENCES(self, DO)                                                                                              \
  DO((self)->ledger_object)                                                                                                   \
  DO((self)->action)                                                                                                          \
  DO((self)->context)                                                                                                         \
  DO((self)->cancelled_error)                                                                                                 \
  DO((self)->iterator)                                                                                                        \
  DO((self)->results)                                                                                                         \
  DO((self)->failures) DO((self)->raised) DO((self)->outbox) DO((self)->token) DO((self)->listener) DO((self)->reader)        \
      DO((self)->closer) DO((self)->worker_type) DO((self)->create_task) DO((self)->create_future) DO((self)->source_context) \
          DO((self)->items) DO((self)->loop_time) DO((self)->owner_task) DO((self)->item_timeout_text) DO((self)->total_timeout_text) DO((self)->setup_value) DO((self)->governor) DO((self)->turn)

static int feed_traverse(FeedObject *self, visitproc visit, void *arg) {
#define VISIT(field) Py_VISIT(field);
  Py_VISIT(Py_TYPE(self));
  FOR_REFERENCES(self, VISIT)
  for (WorkerObject *worker = self->workers; worker != NULL; worker = worker->next)
    Py_VISIT(worker);
  int rc = fw_queue_traverse(&self->offered, visit, arg);
  return rc != 0 ? rc : fw_queue_traverse(&self->returned, visit, arg);
}

static int feed_clear(FeedObject *self) {
#define CLEAR(field) Py_CLEAR(field);
  fw_queue_clear(&self->offered);
  fw_queue_clear(&self->returned);
  FOR_REFERENCES(self, CLEAR)
  return 0;
}

static void feed_dealloc(FeedObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  feed_clear(self);
  if (self->bell != NULL) {
    PyThread_release_lock(self->bell);
    PyThread_free_lock(self->bell);
  }
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *nothing_or(int rc) { return rc < 0 ? NULL : Py_NewRef(Py_None); }

static PyObject *feed_read(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_feed_read(self);
  Py_RETURN_NONE;
}

static PyObject *feed_give(FeedObject *self, PyObject *items) {
  if (!PyList_CheckExact(items))
    return PyErr_Format(PyExc_TypeError, "give needs a list, got %R", items);
  return nothing_or(fw_feed_give(self, items));
}

static PyObject *feed_offer(FeedObject *self, PyObject *item) { return nothing_or(fw_feed_offer(self, item)); }

static PyObject *feed_end(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_feed_end(self);
  Py_RETURN_NONE;
}

static PyObject *feed_stop(FeedObject *self, PyObject *args) {
  int cause;
  PyObject *exception = Py_None;
  if (!PyArg_ParseTuple(args, "i|O:stop", &cause, &exception))
    return NULL;
  if (exception == Py_None)
    fw_feed_stop(self, cause);
  else
    fw_feed_raise(self, cause, Py_NewRef(exception));
  Py_RETURN_NONE;
}

static PyObject *feed_cancel(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  self->asked_to_stop = 1;
  fw_feed_changed(self);
  Py_RETURN_NONE;
}

static PyObject *feed_look(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_feed_look(self, fw_feed_now(self));
  fw_feed_kick(self);
  if (self->alive > 0)
    fw_workers_spawn(self, FW_UNKNOWN);
  Py_RETURN_NONE;
}

static PyObject *feed_close_source(FeedObject *self, PyObject *generator) {
  if (PyContext_Enter(self->source_context) < 0)
    return NULL;
  PyObject *result = PyObject_CallMethod(generator, "close", NULL);
  if (PyContext_Exit(self->source_context) < 0)
    Py_CLEAR(result);
  return result;
}

static PyObject *feed_abandon(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_feed_abandon(self);
  Py_RETURN_NONE;
}

static PyObject *feed_seal(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_ledger *ledger = self->ledger;
  if (ledger->counts.total == FW_UNKNOWN && self->known != FW_UNKNOWN && self->known > ledger->pulled)
    ledger->counts.total = self->known; /* a sized source that was not read to its end */
  return fw_ledger_seal(ledger) < 0 ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

static int use_loop(FeedObject *self, PyObject *loop) {
  PyObject *type = PyObject_GetAttrString(PyType_GetModule(Py_TYPE(self)), "Turn");
  Py_XSETREF(self->turn, type == NULL ? NULL : fw_turn_new((PyTypeObject *)type, loop));
  Py_XDECREF(type);
  Py_XSETREF(self->create_task, PyObject_GetAttrString(loop, "create_task"));
  Py_XSETREF(self->create_future, PyObject_GetAttrString(loop, "create_future"));
  Py_XSETREF(self->loop_time, PyObject_GetAttrString(loop, "time"));
  return self->turn == NULL || self->create_task == NULL || self->create_future == NULL || self->loop_time == NULL ? -1 : 0;
}

static PyObject *feed_use_loop(FeedObject *self, PyObject *args) {
  PyObject *loop, *owner, *value;
  if (!PyArg_ParseTuple(args, "OOO:use_loop", &loop, &owner, &value) || use_loop(self, loop) < 0)
    return NULL;
  Py_XSETREF(self->owner_task, or_null(owner));
  if (self->has_setup)
    Py_XSETREF(self->setup_value, Py_NewRef(value));
  self->handing_over = 0;
  if (self->ledger->pulled == 0)
    self->origin_ns = fw_monotonic_ns(); /* the setup is no part of the run */
  if (self->iterator != NULL || self->ended)
    self->by_offer = 0; /* the loop's own thread asks, and no other */
  Py_RETURN_NONE;
}

static PyObject *feed_hand_over(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  self->handing_over = 1;
  fw_feed_kick(self);
  Py_RETURN_NONE;
}

static PyObject *feed_launch(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_workers_spawn(self, self->returned.count > 0 ? self->returned.count : 1);
  fw_feed_kick(self);
  Py_RETURN_NONE;
}

static PyObject *feed_expire(FeedObject *self, PyObject *now) {
  double next, at = PyFloat_AsDouble(now);
  if (PyErr_Occurred() || fw_workers_expire(self, at, &next) < 0)
    return NULL;
  return PyFloat_FromDouble(next);
}

static PyObject *feed_collect(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  PyObject *fresh = PyList_New(0), *rows = self->outbox;
  if (fresh == NULL || rows == NULL)
    return fresh;
  self->outbox = fresh;
  return rows;
}

static PyObject *feed_wake_reader(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_feed_tell(&self->reader);
  Py_RETURN_NONE;
}

static PyObject *feed_taken(FeedObject *self, PyObject *Py_UNUSED(ignored)) {
  if (self->held-- == self->buffer) {
    self->held_ns += fw_feed_now(self) - self->held_since_ns;
    self->held_since_ns = 0;
    fw_feed_changed(self);
  }
  Py_RETURN_NONE;
}

static PyMethodDef feed_methods[] = {
    {"read", (PyCFunction)feed_read, METH_NOARGS, "read(): the whole source, before the first start"},
    {"give", (PyCFunction)feed_give, METH_O, "give(items): the whole source as a list that somebody else has read"},
    {"offer", (PyCFunction)feed_offer, METH_O, "offer(item): one item that somebody else has pulled"},
    {"end", (PyCFunction)feed_end, METH_NOARGS, "end(): nothing more will be offered"},
    {"stop", (PyCFunction)feed_stop, METH_VARARGS, "stop(cause[, exception]): nothing more starts; the exception ends the run"},
    {"cancel", (PyCFunction)feed_cancel, METH_NOARGS, "cancel(): as a CancelToken of the feed's own, from any thread"},
    {"look", (PyCFunction)feed_look, METH_NOARGS, "look(): at what may have changed from outside: token, time, limit, buffer"},
    {"close_source", (PyCFunction)feed_close_source, METH_O,
     "close_source(generator): it learns that it will not be asked again"},
    {"abandon", (PyCFunction)feed_abandon, METH_NOARGS,
     "abandon(): what is in flight is cancelled and leaves no trace when it ends"},
    {"seal", (PyCFunction)feed_seal, METH_NOARGS, "seal(): the run is over; every item has its final state"},
    {"work", (PyCFunction)(void (*)(void))fw_threads_work, METH_FASTCALL, "work([value]): runs items until there are no more"},
    {"attend", (PyCFunction)fw_threads_attend, METH_O,
     "attend(seconds): serves the run until there is something to do: \"hire\", \"leave\" or \"tick\""},
    {"hire", (PyCFunction)fw_threads_hire, METH_NOARGS, "hire(): one more thread is about to start"},
    {"leave", (PyCFunction)fw_threads_leave, METH_O, "leave(came): a thread is gone; came: it has been in work()"},
    {"hand_over", (PyCFunction)feed_hand_over, METH_NOARGS,
     "hand_over(): the action is async after all; threads take no more items"},
    {"use_loop", (PyCFunction)feed_use_loop, METH_VARARGS, "use_loop(loop, owner_task, setup_value)"},
    {"launch", (PyCFunction)feed_launch, METH_NOARGS, "launch(): the first workers of the loop"},
    {"expire", (PyCFunction)feed_expire, METH_O,
     "expire(now): cancels items that are late by the loop's clock; the next deadline"},
    {"collect", (PyCFunction)feed_collect, METH_NOARGS, "collect(): the outcomes since the last call"},
    {"wake_reader", (PyCFunction)feed_wake_reader, METH_NOARGS, "wake_reader(): there will be no more outcomes"},
    {"taken", (PyCFunction)feed_taken, METH_NOARGS, "taken(): a consumer has taken one outcome"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot feed_slots[] = {
    {Py_tp_new, feed_new},
    {Py_tp_dealloc, feed_dealloc},
    {Py_tp_traverse, feed_traverse},
    {Py_tp_clear, feed_clear},
    {Py_tp_methods, feed_methods},
    {Py_tp_getset, fw_feed_getset},
    {Py_tp_doc, "One run of a Python callable: source, admission, results."},
    {0, NULL},
};

static PyType_Spec feed_spec = {
    .name = "fanwidth._core.Feed",
    .basicsize = sizeof(FeedObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = feed_slots,
};

static int add(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  int rc = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
  Py_XDECREF(type);
  return rc;
}

int fw_callables_add(PyObject *module) {
  return add(module, &fw_turn_spec) < 0 || add(module, &fw_worker_spec) < 0 ? -1 : add(module, &feed_spec);
}
