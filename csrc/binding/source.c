/* source: the only code that takes the GIL during a native run, to pull and, every 50 ms, to look for signals. */
#include "source.h"

#include <math.h>

enum { PULLS_PER_SIGNAL_CHECK = 1024 };

int64_t fw_read_seconds(PyObject *seconds, const char *what) {
  double value = PyBool_Check(seconds) ? NAN : PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) { /* an int beyond all floats */
    PyErr_Clear();
    value = INFINITY;
  }
  if (PyBool_Check(seconds) || (value == -1.0 && PyErr_Occurred())) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be a number of seconds, got %.100R", what, seconds);
    return -1;
  }
  if (isfinite(value) && value >= 0 && value * 1e9 <= (double)FW_LONGEST_NS)
    return (int64_t)llround(value * 1e9);
  PyErr_Format(PyExc_ValueError, "%s must be from 0 to 100 years in seconds, got %.100R", what, seconds);
  return -1;
}

static void stash(fw_source *source, int interrupted) {
  if (source->raised_type != NULL) {
    PyErr_Clear();
    return;
  }
  PyErr_Fetch(&source->raised_type, &source->raised, &source->traceback);
  PyErr_NormalizeException(&source->raised_type, &source->raised, &source->traceback);
  if (source->traceback != NULL)
    PyException_SetTraceback(source->raised, source->traceback);
  source->interrupted = interrupted;
}

int fw_source_tick(void *context, uint64_t done, uint64_t failed) {
  fw_source *source = context;
  PyEval_RestoreThread(source->thread);
  int rc = PyErr_CheckSignals();
  if (rc == 0 && source->report != NULL) {
    PyObject *answer = PyObject_CallFunction(source->report, "KK", (unsigned long long)done, (unsigned long long)failed);
    Py_XDECREF(answer);
    rc = answer == NULL ? -1 : 0;
  }
  if (rc < 0)
    stash(source, 1);
  source->thread = PyEval_SaveThread();
  return rc < 0;
}

static int grow(void **block, size_t *capacity, size_t wanted, size_t size) {
  if (wanted <= *capacity)
    return 0;
  size_t doubled = *capacity * 2 > wanted ? *capacity * 2 : wanted + 64;
  void *grown = PyMem_RawRealloc(*block, doubled * size);
  if (grown == NULL)
    return -1;
  *block = grown;
  *capacity = doubled;
  return 0;
}

/* Items that ended well are let go. At least half can be each time, for only `limit` of them are in flight. */
static void sift(fw_source *source, fw_run *run) {
  size_t kept = 0;
  for (size_t i = 0; i < source->held_count; i++) {
    fw_held held = source->held[i];
    int state = run == NULL ? source->ledger->state[held.index] : fw_state_of(run, held.index);
    if (state == FW_OK || state == FW_CANCELLED || state == FW_NOT_STARTED)
      Py_DECREF(held.item);
    else
      source->held[kept++] = held;
  }
  source->held_count = kept;
}

static int hold(fw_source *source, fw_run *run, uint64_t index, PyObject *item) {
  if (source->held_count == source->held_capacity) {
    size_t before = source->held_count;
    sift(source, run);
    if (source->held_count >= before / 2 &&
        grow((void **)&source->held, &source->held_capacity, before + 1, sizeof *source->held) < 0)
      return -1;
  }
  source->held[source->held_count++] = (fw_held){.index = index, .item = Py_NewRef(item)};
  return 0;
}

/* The item's own time in ns, or -1 once its failure is on the list; -2 with no memory. */
static int64_t own_time(fw_source *source, uint64_t index, PyObject *item) {
  char what[64];
  PyOS_snprintf(what, sizeof what, "the delay of item %llu", (unsigned long long)index);
  int64_t ns = fw_read_seconds(item, what);
  if (ns < 0) {
    PyObject *type, *raised, *traceback;
    PyErr_Fetch(&type, &raised, &traceback);
    PyErr_NormalizeException(&type, &raised, &traceback);
    PyObject *failure = Py_BuildValue("(KOO)", (unsigned long long)index, item, raised);
    int rc = failure == NULL ? -1 : PyList_Append(source->failures, failure);
    Py_XDECREF(failure);
    Py_XDECREF(type);
    Py_XDECREF(raised);
    Py_XDECREF(traceback);
    if (rc < 0)
      return -2;
  }
  if (source->ledger->latency == NULL) {
    if (grow((void **)&source->drawn_ns, &source->drawn_capacity, index + 1, sizeof *source->drawn_ns) < 0)
      return -2;
    source->drawn_ns[index] = ns < 0 ? 0 : ns;
  }
  return ns;
}

/* Pulls one item and offers it. 1: go on; 2: nothing more may start; 0: the end; else as fw_host.pull. */
static int pull_one(fw_source *source, fw_run *run) {
  uint64_t index = source->ledger->pulled;
  /* An iterator written in C runs no bytecode, between two of which Python itself would look. */
  if (index % PULLS_PER_SIGNAL_CHECK == 0 && PyErr_CheckSignals() < 0) {
    stash(source, 1);
    return FW_PULL_INTERRUPTED;
  }
  PyObject *item = PyIter_Next(source->iterator);
  if (item == NULL) {
    if (!PyErr_Occurred())
      return 0;
    int interrupted = !PyErr_ExceptionMatches(PyExc_Exception); /* Ctrl-C while the source's own code ran */
    stash(source, interrupted);
    return interrupted ? FW_PULL_INTERRUPTED : FW_PULL_FAILED;
  }
  int64_t ns = source->item_is_time ? own_time(source, index, item) : 0;
  int rc = ns == -2 || (source->holds_items && hold(source, run, index, item) < 0) ? -1 : 0;
  Py_DECREF(item);
  if (rc < 0) {
    PyErr_NoMemory();
    stash(source, 1);
    return FW_PULL_INTERRUPTED;
  }
  return fw_offer(run, ns) ? 1 : 2;
}

int fw_source_pull(void *context, fw_run *run, uint64_t may) {
  fw_source *source = context;
  PyEval_RestoreThread(source->thread);
  int rc = 1;
  while (rc == 1 && may-- > 0)
    rc = pull_one(source, run);
  source->thread = PyEval_SaveThread();
  return rc == 2 ? 1 : rc;
}

PyObject *fw_source_failed_items(fw_source *source) {
  PyObject *items = PyDict_New();
  if (items == NULL || source->held_count == 0)
    return items;
  sift(source, NULL);
  for (size_t i = 0; i < source->held_count; i++) {
    PyObject *index = PyLong_FromUnsignedLongLong(source->held[i].index);
    int rc = index == NULL ? -1 : PyDict_SetItem(items, index, source->held[i].item);
    Py_XDECREF(index);
    if (rc < 0) {
      Py_DECREF(items);
      return NULL;
    }
  }
  return items;
}

void fw_source_clear(fw_source *source) {
  for (size_t i = 0; i < source->held_count; i++)
    Py_DECREF(source->held[i].item);
  PyMem_RawFree(source->held);
  PyMem_RawFree(source->drawn_ns);
  Py_CLEAR(source->failures);
  Py_CLEAR(source->raised_type);
  Py_CLEAR(source->raised);
  Py_CLEAR(source->traceback);
}
