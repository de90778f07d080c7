/* native: _core.run, one run of a native action. It turns arguments into a plan and the outcome into Python objects. */
#include "source.h"

#include "../action.h"

#include <string.h>

/* (kind, seed, a, b, values or None): see fw_distribution. `values` is a buffer of int64 ns, held while the run lasts. */
static int read_time(PyObject *tuple, fw_distribution *time, Py_buffer *values) {
  const char *kind;
  unsigned long long seed;
  PyObject *buffer;
  if (!PyArg_ParseTuple(tuple, "sKddO:time", &kind, &seed, &time->a, &time->b, &buffer))
    return -1;
  time->seed = seed;
  for (int i = 0; i < fw_distribution_kind_count; i++)
    if (strcmp(kind, fw_distribution_kinds[i].name) == 0)
      time->kind = &fw_distribution_kinds[i];
  if (time->kind == NULL) {
    PyErr_Format(PyExc_ValueError, "there is no distribution \"%s\"", kind);
    return -1;
  }
  if (buffer == Py_None)
    return 0;
  if (PyObject_GetBuffer(buffer, values, PyBUF_SIMPLE) < 0)
    return -1;
  time->values = values->buf;
  time->count = (uint64_t)values->len / sizeof(int64_t);
  return 0;
}

static const fw_action *find_action(const char *name) {
  for (int i = 0; fw_actions[i] != NULL; i++)
    if (strcmp(name, fw_actions[i]->name) == 0)
      return fw_actions[i];
  PyErr_Format(PyExc_ValueError, "there is no native action \"%s\"", name);
  return NULL;
}

static const fw_strategy *find_strategy(const char *name) {
  for (int i = 0; i < fw_strategy_count; i++)
    if (strcmp(name, fw_strategies[i].name) == 0)
      return &fw_strategies[i];
  PyErr_Format(PyExc_ValueError, "there is no strategy \"%s\"", name);
  return NULL;
}

static int read_ns(PyObject *value, int64_t *ns) {
  *ns = FW_NEVER;
  if (value == Py_None)
    return 0;
  *ns = PyLong_AsLongLong(value);
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *drawn(const fw_source *source) {
  if (source->drawn_ns == NULL)
    return Py_NewRef(Py_None);
  return PyBytes_FromStringAndSize((const char *)source->drawn_ns,
                                   (Py_ssize_t)(source->ledger->counts.started * sizeof(int64_t)));
}

static PyObject *facts(LedgerObject *ledger, fw_source *source, const fw_outcome *outcome) {
  PyObject *items = fw_source_failed_items(source);
  PyObject *times = items == NULL ? NULL : drawn(source);
  if (times == NULL) {
    Py_XDECREF(items);
    return NULL;
  }
  return Py_BuildValue("{s:O,s:O,s:N,s:N,s:O,s:O,s:K,s:O,s:O,s:L}", "ledger", ledger, "failures", source->failures, "items",
                       items, "drawn_ns", times, "raised", source->raised == NULL ? Py_None : source->raised, "interrupted",
                       source->interrupted ? Py_True : Py_False, "threads", (unsigned long long)outcome->threads,
                       "threads_refused", outcome->threads_refused ? Py_True : Py_False, "uses_timerfd",
                       outcome->uses_timerfd ? Py_True : Py_False, "pulling_ns", (long long)outcome->pulling_ns);
}

static PyObject *run(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"strategy",        "action",           "iterator", "total",     "limit",       "time",
                          "item_timeout_ns", "total_timeout_ns", "capacity", "queue",     "max_threads", "max_failures",
                          "samples",         "is_virtual",       "uv_timer", "origin_ns", "cancel",      "item_is_time",
                          "report",          "drains",           "stop",     NULL};
  const char *strategy, *action;
  PyObject *iterator, *total, *limit, *time, *item_timeout, *total_timeout, *capacity, *queue, *max_failures, *cancel, *report,
      *stop = Py_None;
  unsigned long long max_threads;
  int samples, is_virtual, uv_timer, item_is_time, drains = 0;
  long long origin_ns;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ssOOOO!OOOOKOpppLOpO|pO:run", names, &strategy, &action, &iterator, &total,
                                   &limit, &PyTuple_Type, &time, &item_timeout, &total_timeout, &capacity, &queue, &max_threads,
                                   &max_failures, &samples, &is_virtual, &uv_timer, &origin_ns, &cancel, &item_is_time, &report,
                                   &drains, &stop))
    return NULL;

  fw_plan plan = {.max_threads = max_threads,
                  .is_virtual = is_virtual,
                  .drains = drains,
                  .timer = uv_timer ? FW_TIMER_UV : FW_TIMER_BEST,
                  .origin_ns = origin_ns};
  uint64_t known, width, failures;
  plan.strategy = find_strategy(strategy);
  plan.action = plan.strategy == NULL ? NULL : find_action(action);
  if (plan.action == NULL || fw_read_count(total, &known) < 0 || fw_read_count(limit, &width) < 0 ||
      fw_read_count(capacity, &plan.capacity) < 0 || fw_read_count(queue, &plan.queue) < 0 ||
      fw_read_count(max_failures, &failures) < 0 || read_ns(item_timeout, &plan.item_timeout_ns) < 0 ||
      read_ns(total_timeout, &plan.total_timeout_ns) < 0)
    return NULL;
  if (cancel != Py_None && (plan.cancel = fw_cancel_flag(module, cancel)) == NULL)
    return NULL;
  if (stop != Py_None && (plan.stop = fw_cancel_flag(module, stop)) == NULL)
    return NULL;

  PyObject *result = NULL;
  Py_buffer values = {0};
  if (read_time(time, &plan.time, &values) < 0)
    return NULL;
  LedgerObject *ledger = fw_ledger_new(module, known, width, samples);
  fw_source source = {.iterator = iterator,
                      .item_is_time = item_is_time,
                      .ledger = ledger == NULL ? NULL : &ledger->ledger,
                      .report = report == Py_None ? NULL : report,
                      .holds_items = samples && (plan.item_timeout_ns != FW_NEVER || plan.total_timeout_ns != FW_NEVER ||
                                                 plan.queue != FW_UNKNOWN),
                      .failures = PyList_New(0)};
  plan.host = (fw_host){.context = &source, .tick = fw_source_tick, .pull = iterator == Py_None ? NULL : fw_source_pull};
  if (ledger != NULL && source.failures != NULL) {
    fw_outcome outcome;
    ledger->ledger.max_failures = failures;
    source.thread = PyEval_SaveThread();
    int rc = fw_engine_run(&plan, &ledger->ledger, &outcome);
    PyEval_RestoreThread(source.thread);
    result = rc < 0 ? fw_raise(rc) : facts(ledger, &source, &outcome);
  }
  Py_XDECREF(ledger);
  fw_source_clear(&source);
  if (values.obj != NULL)
    PyBuffer_Release(&values);
  return result;
}

static PyObject *read_seconds(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *seconds;
  const char *what;
  if (!PyArg_ParseTuple(args, "Os:read_seconds", &seconds, &what))
    return NULL;
  int64_t ns = fw_read_seconds(seconds, what);
  return ns < 0 ? NULL : PyLong_FromLongLong(ns);
}

static PyObject *draw(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tuple, *result = NULL;
  unsigned long long index;
  if (!PyArg_ParseTuple(args, "O!K:draw", &PyTuple_Type, &tuple, &index))
    return NULL;
  fw_distribution time = {0};
  Py_buffer values = {0};
  if (read_time(tuple, &time, &values) == 0)
    result = PyLong_FromLongLong(fw_draw(&time, index));
  if (values.obj != NULL)
    PyBuffer_Release(&values);
  return result;
}

static PyMethodDef functions[] = {
    {"draw", draw, METH_VARARGS, "draw($module, time, index, /)\n--\n\nThe ns that a run with this `time` draws for an item."},
    {"read_seconds", read_seconds, METH_VARARGS,
     "read_seconds($module, seconds, what, /)\n--\n\nA time in whole ns; ValueError or TypeError names `what`."},
    {"run", (PyCFunction)(void (*)(void))run, METH_VARARGS | METH_KEYWORDS,
     "run($module, /, strategy, action, iterator, total, limit, time, item_timeout_ns, total_timeout_ns, capacity, queue, "
     "max_threads, "
     "max_failures, samples, is_virtual, uv_timer, origin_ns, cancel, item_is_time, report, drains=False, stop=None)\n--\n\n"
     "Runs a native action without the GIL; gives the facts of the run by name."},
    {NULL, NULL, 0, NULL},
};

int fw_native_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
