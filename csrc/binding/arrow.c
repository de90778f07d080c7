/* arrow: `_core.arrow_stream(length, columns)`, a PyCapsule with an Arrow C stream that owns copies of the columns. */
#include "binding.h"

#include "../arrow.h"

static const char capsule_name[] = "arrow_array_stream"; /* fixed by the Arrow PyCapsule interface */

/* A receiver that took the stream has set its release to NULL. Runs no Python code, so a pending exception is safe. */
static void free_capsule(PyObject *capsule) {
  struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, capsule_name);
  if (stream == NULL)
    return;
  if (stream->release != NULL)
    stream->release(stream);
  PyMem_RawFree(stream);
}

/* One (name, format, null_count, buffers): buffers are bytes or None. What `column` points to is borrowed from `tuple`. */
static int read_column(PyObject *tuple, fw_arrow_column *column) {
  PyObject *buffers;
  long long null_count;
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "a column must be a tuple");
    return -1;
  }
  if (!PyArg_ParseTuple(tuple, "ssLO!:arrow_stream", &column->name, &column->format, &null_count, &PyTuple_Type, &buffers))
    return -1;
  column->null_count = null_count;
  column->n_buffers = (int)PyTuple_GET_SIZE(buffers);
  if (column->n_buffers < 1 || column->n_buffers > FW_ARROW_BUFFERS) {
    PyErr_Format(PyExc_ValueError, "a column has 1 to %d buffers, got %d", FW_ARROW_BUFFERS, column->n_buffers);
    return -1;
  }
  for (int i = 0; i < column->n_buffers; i++) {
    PyObject *buffer = PyTuple_GET_ITEM(buffers, i);
    if (buffer == Py_None)
      continue;
    if (!PyBytes_Check(buffer)) {
      PyErr_SetString(PyExc_TypeError, "a buffer must be bytes or None");
      return -1;
    }
    column->buffers[i] = PyBytes_AS_STRING(buffer);
    column->bytes[i] = (size_t)PyBytes_GET_SIZE(buffer);
  }
  return 0;
}

static PyObject *arrow_stream(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *tuple, *capsule = NULL;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "nO!:arrow_stream", &length, &PyTuple_Type, &tuple))
    return NULL;
  size_t n = (size_t)PyTuple_GET_SIZE(tuple);
  struct ArrowArrayStream *stream = PyMem_RawCalloc(1, sizeof *stream);
  fw_arrow_column *columns = PyMem_RawCalloc(n, sizeof *columns);
  if (stream == NULL || columns == NULL) {
    PyErr_NoMemory();
    goto done;
  }
  for (size_t i = 0; i < n; i++)
    if (read_column(PyTuple_GET_ITEM(tuple, (Py_ssize_t)i), &columns[i]) < 0)
      goto done;
  if (fw_arrow_open(stream, (int64_t)length, columns, n) < 0) {
    PyErr_NoMemory();
    goto done;
  }
  capsule = PyCapsule_New(stream, capsule_name, free_capsule);
  if (capsule == NULL)
    stream->release(stream);

done:
  PyMem_RawFree(columns);
  if (capsule == NULL)
    PyMem_RawFree(stream);
  return capsule;
}

static PyMethodDef functions[] = {
    {"arrow_stream", arrow_stream, METH_VARARGS,
     "arrow_stream($module, length, columns, /)\n--\n\n"
     "A PyCapsule with one batch of `length` rows; columns: (name, format, null count, buffers as bytes or None)."},
    {NULL, NULL, 0, NULL},
};

int fw_arrow_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
