/* binding.h: what the binding's files share. The only place that includes Python.h. */
#ifndef FW_BINDING_H
#define FW_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../engine.h"

/* One for each interpreter. All types are owned. */
typedef struct fw_state {
  PyTypeObject *ledger_type;
  PyTypeObject *column_type;
  PyTypeObject *cancel_type;
} fw_state;

/* _core.Ledger: a run's ledger, whose columns Python reads through buffers. */
typedef struct {
  PyObject_HEAD
  fw_ledger ledger;
} LedgerObject;

/* Adds the types and functions of one file to the module. 0, or -1 with an exception set. */
int fw_ledger_add(PyObject *module);
int fw_cancel_add(PyObject *module);
int fw_native_add(PyObject *module);
int fw_order_add(PyObject *module);
int fw_arrow_add(PyObject *module);
int fw_callables_add(PyObject *module);

/* A new, empty ledger. NULL with an exception set. */
LedgerObject *fw_ledger_new(PyObject *module, uint64_t total, uint64_t limit, int samples);

/* The flag of a CancelToken, borrowed; NULL with an exception set where it is none. */
const atomic_int *fw_cancel_flag(PyObject *module, PyObject *token);

/* Sets the exception for a negative errno of the engine, and returns NULL. */
PyObject *fw_raise(int error);

/* None stands for FW_UNKNOWN. 0, or -1 with an exception set. */
int fw_read_count(PyObject *value, uint64_t *count);

#endif
