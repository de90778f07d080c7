/* ledger: _core.Ledger and its columns. A column shares the ledger's memory: nothing is copied on the way to numpy. */
#include "binding.h"

#include <math.h>

typedef struct {
  PyObject_HEAD
  LedgerObject *ledger; /* owned */
  void *values;         /* of the ledger's block */
  Py_ssize_t shape, stride;
  char *format;
} ColumnObject;

static void ledger_dealloc(LedgerObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  fw_ledger_close(&self->ledger);
  type->tp_free(self);
  Py_DECREF(type);
}

LedgerObject *fw_ledger_new(PyObject *module, uint64_t total, uint64_t limit, int samples) {
  fw_state *state = PyModule_GetState(module);
  LedgerObject *self = (LedgerObject *)state->ledger_type->tp_alloc(state->ledger_type, 0);
  if (self == NULL)
    return NULL;
  if (fw_ledger_init(&self->ledger, &fw_system_memory, total, limit, samples) < 0) {
    Py_DECREF(self);
    PyErr_Format(PyExc_MemoryError, "no memory for the samples of %llu items (keep=\"summary\" needs none)",
                 (unsigned long long)total);
    return NULL;
  }
  return self;
}

static PyObject *ledger_counts(LedgerObject *self, void *closure) {
  (void)closure;
  const uint64_t *ended = self->ledger.ended;
  return Py_BuildValue("(KKKKK)", (unsigned long long)ended[FW_OK], (unsigned long long)ended[FW_FAILED],
                       (unsigned long long)ended[FW_TIMED_OUT], (unsigned long long)ended[FW_CANCELLED],
                       (unsigned long long)ended[FW_NOT_STARTED]);
}

#define COUNT(name, field)                                            \
  static PyObject *ledger_##name(LedgerObject *self, void *closure) { \
    (void)closure;                                                    \
    return PyLong_FromUnsignedLongLong(self->ledger.field);           \
  }
COUNT(pulled, pulled)
COUNT(started, counts.started)
COUNT(finished, counts.finished)
COUNT(total, counts.total)
COUNT(limit, counts.limit)
COUNT(peak_in_flight, peak_in_flight)
COUNT(bytes, arena.peak_bytes)

static PyObject *ledger_last_finish_ns(LedgerObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLongLong(self->ledger.last_finish_ns);
}

static PyObject *ledger_stop(LedgerObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(self->ledger.stop);
}

static PyObject *column(PyObject *owner, void *values, char *format, Py_ssize_t stride) {
  LedgerObject *ledger = (LedgerObject *)owner;
  PyObject *module = PyType_GetModule(Py_TYPE(owner));
  fw_state *state = module == NULL ? NULL : PyModule_GetState(module);
  if (state == NULL)
    return NULL;
  ColumnObject *self = (ColumnObject *)state->column_type->tp_alloc(state->column_type, 0);
  if (self == NULL)
    return NULL;
  self->ledger = (LedgerObject *)Py_NewRef(owner);
  self->values = values == NULL ? self : values; /* a buffer of nothing still needs an address */
  self->shape = (Py_ssize_t)(values == NULL ? 0 : ledger->ledger.counts.total);
  self->stride = stride;
  self->format = format;
  PyObject *view = PyMemoryView_FromObject((PyObject *)self);
  Py_DECREF(self);
  return view;
}

/* The views outlive the run, so they are made only from a ledger that will not change any more. */
static PyObject *ledger_columns(LedgerObject *self, PyObject *Py_UNUSED(ignored)) {
  fw_ledger *ledger = &self->ledger;
  if (ledger->latency != NULL)
    Py_RETURN_NONE;
  PyObject *start = column((PyObject *)self, ledger->start_ns, "q", sizeof(int64_t));
  PyObject *finish = column((PyObject *)self, ledger->finish_ns, "q", sizeof(int64_t));
  PyObject *state = column((PyObject *)self, ledger->state, "b", sizeof(int8_t));
  if (start != NULL && finish != NULL && state != NULL)
    return Py_BuildValue("(NNN)", start, finish, state);
  Py_XDECREF(start);
  Py_XDECREF(finish);
  Py_XDECREF(state);
  return NULL;
}

/* (n, mean, std or None, min, max, [(value, count), ...]): ns, the pairs by rising value. */
static PyObject *tally(const fw_tally *tally) {
  PyObject *buckets = PyList_New(0);
  if (buckets == NULL)
    return NULL;
  for (int i = 0; i < FW_TALLY_BUCKETS; i++) {
    if (tally->buckets[i] == 0)
      continue;
    PyObject *pair = Py_BuildValue("(LK)", (long long)fw_tally_middle(i), (unsigned long long)tally->buckets[i]);
    int rc = pair == NULL ? -1 : PyList_Append(buckets, pair);
    Py_XDECREF(pair);
    if (rc < 0) {
      Py_DECREF(buckets);
      return NULL;
    }
  }
  double deviation = tally->n < 2 ? 0 : (double)sqrtl(tally->squares / (long double)(tally->n - 1));
  return Py_BuildValue("(KdNLLN)", (unsigned long long)tally->n, (double)tally->mean_ns,
                       tally->n < 2 ? Py_NewRef(Py_None) : PyFloat_FromDouble(deviation), (long long)tally->min_ns,
                       (long long)tally->max_ns, buckets);
}

static PyObject *ledger_tallies(LedgerObject *self, PyObject *Py_UNUSED(ignored)) {
  if (self->ledger.latency == NULL)
    Py_RETURN_NONE;
  PyObject *latency = tally(self->ledger.latency), *wait = tally(self->ledger.wait);
  if (latency != NULL && wait != NULL)
    return Py_BuildValue("(NN)", latency, wait);
  Py_XDECREF(latency);
  Py_XDECREF(wait);
  return NULL;
}

/* A run that ended before its start: `total` items were pulled, none was started. */
static PyObject *unstarted(PyObject *module, PyObject *args) {
  unsigned long long total;
  int stop;
  if (!PyArg_ParseTuple(args, "Ki:unstarted", &total, &stop))
    return NULL;
  LedgerObject *self = fw_ledger_new(module, total, FW_UNKNOWN, 1);
  if (self == NULL)
    return NULL;
  self->ledger.pulled = total;
  fw_ledger_stop(&self->ledger, stop);
  int rc = fw_ledger_seal(&self->ledger);
  if (rc == 0)
    return (PyObject *)self;
  Py_DECREF(self);
  return fw_raise(rc);
}

static PyMethodDef functions[] = {
    {"unstarted", unstarted, METH_VARARGS,
     "unstarted($module, total, stop, /)\n--\n\nThe ledger of a run that read `total` items and started none."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef ledger_getset[] = {
    {"counts", (getter)ledger_counts, NULL, "(ok, failed, timed_out, cancelled, not_started)", NULL},
    {"pulled", (getter)ledger_pulled, NULL, "items taken from the source", NULL},
    {"started", (getter)ledger_started, NULL, "items started", NULL},
    {"finished", (getter)ledger_finished, NULL, "items that ended after they had started", NULL},
    {"total", (getter)ledger_total, NULL, "items of the source, or those pulled where it was not read to its end", NULL},
    {"limit", (getter)ledger_limit, NULL, "the limit in force at the end", NULL},
    {"peak_in_flight", (getter)ledger_peak_in_flight, NULL, "most items in flight at once", NULL},
    {"bytes", (getter)ledger_bytes, NULL, "memory held at the most", NULL},
    {"last_finish_ns", (getter)ledger_last_finish_ns, NULL, "when the last item ended, ns since the start", NULL},
    {"stop", (getter)ledger_stop, NULL, "0: ran to its end; 1 failure, 2 timeout, 3 cancel, 4 source, 5 interrupt", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef ledger_methods[] = {
    {"columns", (PyCFunction)ledger_columns, METH_NOARGS, "(start_ns, finish_ns, state) as read-only views, or None"},
    {"tallies", (PyCFunction)ledger_tallies, METH_NOARGS, "(latency, wait) of the ok items where no columns are kept, or None"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ledger_slots[] = {
    {Py_tp_dealloc, ledger_dealloc},
    {Py_tp_getset, ledger_getset},
    {Py_tp_methods, ledger_methods},
    {Py_tp_doc, "What a run knows of its items."},
    {0, NULL},
};

static PyType_Spec ledger_spec = {
    .name = "fanwidth._core.Ledger",
    .basicsize = sizeof(LedgerObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ledger_slots,
};

static void column_dealloc(ColumnObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(self->ledger);
  type->tp_free(self);
  Py_DECREF(type);
}

static int column_getbuffer(ColumnObject *self, Py_buffer *view, int flags) {
  if (flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "the samples of a run are read-only");
    return -1;
  }
  *view = (Py_buffer){
      .buf = self->values,
      .obj = Py_NewRef((PyObject *)self),
      .len = self->shape * self->stride,
      .itemsize = self->stride,
      .readonly = 1,
      .ndim = 1,
      .format = flags & PyBUF_FORMAT ? self->format : NULL,
      .shape = flags & PyBUF_ND ? &self->shape : NULL,
      .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &self->stride : NULL,
  };
  return 0;
}

static PyType_Slot column_slots[] = {
    {Py_tp_dealloc, column_dealloc},
    {Py_bf_getbuffer, column_getbuffer},
    {0, NULL},
};

static PyType_Spec column_spec = {
    .name = "fanwidth._core.Column",
    .basicsize = sizeof(ColumnObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = column_slots,
};

int fw_ledger_add(PyObject *module) {
  fw_state *state = PyModule_GetState(module);
  state->ledger_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &ledger_spec, NULL);
  state->column_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &column_spec, NULL);
  if (state->ledger_type == NULL || state->column_type == NULL)
    return -1;
  return PyModule_AddFunctions(module, functions) < 0 ? -1 : PyModule_AddType(module, state->ledger_type);
}
