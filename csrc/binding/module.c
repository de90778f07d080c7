/* module: the extension fanwidth._core, put together from the other files of the binding. As Python it would read:

       strategies = ("for_each", "when_all", "bounded", "chunked")
       actions = ("noop", "delay", "cpu", "service")
       def admit(strategy, total, started, finished, limit): ...  # csrc/strategy.c
       def run(...): ...                                          # native.c over csrc/engine.c
       class Ledger, CancelToken, ...
*/
#include "binding.h"

#include "../action.h"

#include <errno.h>
#include <string.h>

PyObject *fw_raise(int error) {
  if (error == -ENOMEM)
    return PyErr_NoMemory();
  if (error == -EOVERFLOW) {
    PyErr_SetString(PyExc_OverflowError, "the run would last longer than the 292 years that 64 bits of nanoseconds hold");
    return NULL;
  }
  errno = -error;
  return PyErr_SetFromErrno(PyExc_OSError);
}

int fw_read_count(PyObject *value, uint64_t *count) {
  *count = FW_UNKNOWN;
  if (value == Py_None)
    return 0;
  *count = PyLong_AsUnsignedLongLong(value);
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *admit(PyObject *module, PyObject *args, PyObject *kwargs) {
  (void)module;
  static char *names[] = {"strategy", "total", "started", "finished", "limit", NULL};
  const char *name;
  PyObject *total, *started, *finished, *limit;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO!O!O:admit", names, &name, &total, &PyLong_Type, &started, &PyLong_Type,
                                   &finished, &limit))
    return NULL;
  fw_counts counts;
  if (fw_read_count(total, &counts.total) < 0 || fw_read_count(started, &counts.started) < 0 ||
      fw_read_count(finished, &counts.finished) < 0 || fw_read_count(limit, &counts.limit) < 0)
    return NULL;
  if (counts.finished > counts.started || counts.started > counts.total || counts.limit == 0) {
    PyErr_SetString(PyExc_ValueError, "admit needs finished <= started <= total and limit >= 1");
    return NULL;
  }
  for (int i = 0; i < fw_strategy_count; i++)
    if (strcmp(name, fw_strategies[i].name) == 0)
      return PyLong_FromUnsignedLongLong(fw_admit(&fw_strategies[i], counts));
  return PyErr_Format(PyExc_ValueError, "there is no strategy \"%s\"", name);
}

static PyObject *clock_ns(PyObject *module, PyObject *Py_UNUSED(ignored)) {
  (void)module;
  return PyLong_FromLongLong(fw_monotonic_ns());
}

static PyMethodDef module_methods[] = {
    {"admit", (PyCFunction)(void (*)(void))admit, METH_VARARGS | METH_KEYWORDS,
     "admit($module, /, strategy, total, started, finished, limit)\n--\n\n"
     "How many items may start now. total: None while unknown; limit: None where there is none."},
    {"clock_ns", clock_ns, METH_NOARGS, "clock_ns($module, /)\n--\n\nThe engine's clock: nanoseconds of CLOCK_MONOTONIC."},
    {NULL, NULL, 0, NULL},
};

static int add_names(PyObject *module, const char *attribute, PyObject *names) {
  PyObject *tuple = names == NULL ? NULL : PyList_AsTuple(names);
  int rc = tuple == NULL ? -1 : PyModule_AddObjectRef(module, attribute, tuple);
  Py_XDECREF(names);
  Py_XDECREF(tuple);
  return rc;
}

static int append_name(PyObject *names, const char *name) {
  PyObject *text = names == NULL ? NULL : PyUnicode_FromString(name);
  int rc = text == NULL ? -1 : PyList_Append(names, text);
  Py_XDECREF(text);
  return rc;
}

static int add_lists(PyObject *module) {
  PyObject *strategies = PyList_New(0), *actions = PyList_New(0), *distributions = PyList_New(0);
  int rc = 0;
  for (int i = 0; rc == 0 && i < fw_strategy_count; i++)
    rc = append_name(strategies, fw_strategies[i].name);
  for (int i = 0; rc == 0 && fw_actions[i] != NULL; i++)
    rc = append_name(actions, fw_actions[i]->name);
  for (int i = 0; rc == 0 && i < fw_distribution_kind_count; i++)
    rc = append_name(distributions, fw_distribution_kinds[i].name);
  rc |= add_names(module, "strategies", strategies);
  rc |= add_names(module, "actions", actions);
  rc |= add_names(module, "distributions", distributions);
  return rc;
}

static int module_exec(PyObject *module) {
  if (add_lists(module) < 0 || fw_ledger_add(module) < 0 || fw_cancel_add(module) < 0 || fw_native_add(module) < 0 ||
      fw_order_add(module) < 0 || fw_arrow_add(module) < 0 || fw_callables_add(module) < 0)
    return -1;
  return PyModule_AddStringConstant(module, "libuv_version", uv_version_string());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  fw_state *state = PyModule_GetState(module);
  Py_VISIT(state->ledger_type);
  Py_VISIT(state->column_type);
  Py_VISIT(state->cancel_type);
  return 0;
}

static int module_clear(PyObject *module) {
  fw_state *state = PyModule_GetState(module);
  Py_CLEAR(state->ledger_type);
  Py_CLEAR(state->column_type);
  Py_CLEAR(state->cancel_type);
  return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fanwidth._core",
    .m_doc = "The engine of fanwidth: strategies, clocks and native actions in C on libuv.",
    .m_size = sizeof(fw_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module_def); }
