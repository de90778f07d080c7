/* order: _core.durations, the sorted durations of a run's ok items. */
#include "binding.h"

#include "../order.h"

static int get_column(PyObject *object, Py_buffer *view, Py_ssize_t itemsize) {
  if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) < 0)
    return -1;
  if (view->len % itemsize == 0)
    return 0;
  PyBuffer_Release(view);
  PyErr_SetString(PyExc_ValueError, "a column does not hold whole items");
  return -1;
}

/* The times from `from` to `to` of the ok items, those from the run's start where `from` is NULL; sorted, without the GIL. */
static Py_ssize_t gather(int64_t *out, int64_t *scratch, const int64_t *from, const int64_t *to, const int8_t *state,
                         Py_ssize_t count) {
  Py_ssize_t kept = 0;
  for (Py_ssize_t i = 0; i < count; i++)
    if (state[i] == FW_OK)
      out[kept++] = to[i] - (from == NULL ? 0 : from[i]);
  fw_sort_ns(out, scratch, (size_t)kept);
  return kept;
}

static PyObject *durations(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *from_object, *to_object, *state_object, *result = NULL;
  if (!PyArg_ParseTuple(args, "OOO:durations", &from_object, &to_object, &state_object))
    return NULL;
  Py_buffer from = {0}, to, state;
  if (from_object != Py_None && get_column(from_object, &from, sizeof(int64_t)) < 0)
    return NULL;
  if (get_column(to_object, &to, sizeof(int64_t)) < 0)
    goto release_from;
  if (get_column(state_object, &state, 1) < 0)
    goto release_to;
  Py_ssize_t count = state.len;
  if (to.len / (Py_ssize_t)sizeof(int64_t) != count || (from.buf != NULL && from.len != to.len)) {
    PyErr_SetString(PyExc_ValueError, "the columns differ in length");
    goto release_state;
  }
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
  int64_t *scratch = PyMem_RawMalloc((size_t)count * sizeof(int64_t) + 1);
  if (bytes != NULL && scratch != NULL) {
    int64_t *values = (int64_t *)PyBytes_AS_STRING(bytes);
    Py_ssize_t kept;
    double mean = 0, deviation = 0;
    Py_BEGIN_ALLOW_THREADS
    kept = gather(values, scratch, from.buf, to.buf, state.buf, count);
    if (kept > 0)
      mean = fw_mean_ns(values, (size_t)kept);
    if (kept > 1)
      deviation = fw_deviation_ns(values, (size_t)kept, mean);
    Py_END_ALLOW_THREADS
    if (_PyBytes_Resize(&bytes, kept * (Py_ssize_t)sizeof(int64_t)) == 0)
      result = Py_BuildValue("(Odd)", bytes, mean, deviation);
  } else if (bytes != NULL) {
    PyErr_NoMemory();
  }
  PyMem_RawFree(scratch);
  Py_XDECREF(bytes);
release_state:
  PyBuffer_Release(&state);
release_to:
  PyBuffer_Release(&to);
release_from:
  if (from.obj != NULL)
    PyBuffer_Release(&from);
  return result;
}

static PyMethodDef functions[] = {
    {"durations", durations, METH_VARARGS,
     "durations($module, from_ns, to_ns, state, /)\n--\n\n"
     "(sorted int64 ns as bytes, mean, std) of the ok items; from_ns None: since the run's start."},
    {NULL, NULL, 0, NULL},
};

int fw_order_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
