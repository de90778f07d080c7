/* cancel: _core.CancelToken, a flag that any thread may set and every run looks at. */
#include "binding.h"

typedef struct {
  PyObject_HEAD
  atomic_int flag;
} CancelObject;

static PyObject *token_cancel(CancelObject *self, PyObject *Py_UNUSED(ignored)) {
  atomic_store(&self->flag, 1);
  Py_RETURN_NONE;
}

static PyObject *token_cancelled(CancelObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(atomic_load(&self->flag));
}

static PyObject *token_repr(CancelObject *self) {
  return PyUnicode_FromFormat("<CancelToken: %s>", atomic_load(&self->flag) ? "cancelled" : "not cancelled");
}

static void token_dealloc(CancelObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef token_methods[] = {
    {"cancel", (PyCFunction)token_cancel, METH_NOARGS,
     "Ends every run that was given this token within 100 ms, from any thread. Runs that start later end at once."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef token_getset[] = {
    {"cancelled", (getter)token_cancelled, NULL, "whether cancel() has been called", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot token_slots[] = {
    {Py_tp_dealloc, token_dealloc},
    {Py_tp_methods, token_methods},
    {Py_tp_getset, token_getset},
    {Py_tp_repr, token_repr},
    {Py_tp_doc, "CancelToken()\n--\n\nStops runs from another thread: pass it as `cancel=` and call cancel()."},
    {0, NULL},
};

static PyType_Spec token_spec = {
    .name = "fanwidth.CancelToken",
    .basicsize = sizeof(CancelObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = token_slots,
};

const atomic_int *fw_cancel_flag(PyObject *module, PyObject *token) {
  fw_state *state = PyModule_GetState(module);
  if (!PyObject_TypeCheck(token, state->cancel_type)) {
    PyErr_Format(PyExc_TypeError, "cancel must be a CancelToken or None, got %R", token);
    return NULL;
  }
  return &((CancelObject *)token)->flag;
}

int fw_cancel_add(PyObject *module) {
  fw_state *state = PyModule_GetState(module);
  state->cancel_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &token_spec, NULL);
  return state->cancel_type == NULL ? -1 : PyModule_AddType(module, state->cancel_type);
}
