/* turn: _core.Turn, what a worker awaits when its item gives way for one turn of the loop, as asyncio.sleep(0) does. In Python:

       class Turn:                                  # as much of a future as a task needs
           def add_done_callback(self, callback, *, context):
               if not self.waiting:
                   self.call_soon(self.run)         # once for all workers that give way in this turn
               self.waiting.append((callback, context))
           def run(self):
               waiting, self.waiting = self.waiting, []
               for callback, context in waiting:
                   context.run(callback, self)

   A task that gives way by itself asks for a callback of its own, which costs more than all that a worker does for an item. */
#include "callables.h"

#include <stdlib.h>

typedef struct waiter {
  PyObject *callback, *context; /* owned */
} waiter;

typedef struct waiters {
  waiter *at; /* owned */
  size_t count, capacity;
} waiters;

struct TurnObject {
  PyObject_HEAD
  PyObject *loop, *call_soon; /* owned */
  int blocking;               /* the flag by which a task knows that what is yielded is awaited */
  waiters waiting, spare;     /* spare: room that the last turn has left */
};

static int enlist(waiters *list, PyObject *callback, PyObject *context) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    waiter *grown = realloc(list->at, capacity * sizeof *grown);
    if (grown == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    list->at = grown;
    list->capacity = capacity;
  }
  list->at[list->count++] = (waiter){.callback = Py_NewRef(callback), .context = Py_NewRef(context)};
  return 0;
}

static void clear(waiters *list) {
  while (list->count > 0) {
    waiter gone = list->at[--list->count];
    Py_DECREF(gone.callback);
    Py_DECREF(gone.context);
  }
}

static int ask_for_turn(TurnObject *self) {
  PyObject *run = PyObject_GetAttrString((PyObject *)self, "run");
  PyObject *handle = run == NULL ? NULL : PyObject_CallOneArg(self->call_soon, run);
  Py_XDECREF(run);
  Py_XDECREF(handle);
  return handle == NULL ? -1 : 0;
}

static PyObject *turn_add_done_callback(TurnObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  if (count != 1 || names == NULL || PyTuple_GET_SIZE(names) != 1) {
    PyErr_SetString(PyExc_TypeError, "add_done_callback needs a callback and its context");
    return NULL;
  }
  if (self->waiting.count == 0 && ask_for_turn(self) < 0)
    return NULL;
  if (enlist(&self->waiting, args[0], args[1]) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static int call_in(PyObject *context, PyObject *callback, PyObject *argument) {
  if (PyContext_Enter(context) < 0)
    return -1;
  PyObject *result = PyObject_CallOneArg(callback, argument);
  Py_XDECREF(result);
  return PyContext_Exit(context) < 0 || result == NULL ? -1 : 0;
}

/* Where one of them lets an exception through (Ctrl-C), the loop learns of it, and the others have their turn all the same. */
static PyObject *turn_run(TurnObject *self, PyObject *Py_UNUSED(ignored)) {
  waiters list = self->waiting;
  self->waiting = self->spare;
  self->spare = (waiters){0};
  PyObject *error = NULL;
  for (size_t i = 0; i < list.count; i++)
    if (call_in(list.at[i].context, list.at[i].callback, (PyObject *)self) < 0)
      Py_XSETREF(error, fw_catch());
  clear(&list);
  free(self->spare.at);
  self->spare = list;
  if (error == NULL)
    Py_RETURN_NONE;
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DECREF(error);
  return NULL;
}

static PyObject *turn_get_loop(TurnObject *self, PyObject *Py_UNUSED(ignored)) { return Py_NewRef(self->loop); }

static PyObject *turn_result(TurnObject *self, PyObject *Py_UNUSED(ignored)) {
  (void)self;
  Py_RETURN_NONE;
}

/* A turn cannot be called off: the task learns of its cancellation when it comes. */
static PyObject *turn_cancel(TurnObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  (void)self, (void)args, (void)count, (void)names;
  Py_RETURN_FALSE;
}

static PyObject *get_blocking(TurnObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(self->blocking);
}

static int set_blocking(TurnObject *self, PyObject *value, void *closure) {
  (void)closure;
  self->blocking = value == Py_True;
  return 0;
}

static int turn_traverse(TurnObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->loop);
  Py_VISIT(self->call_soon);
  for (size_t i = 0; i < self->waiting.count; i++) {
    Py_VISIT(self->waiting.at[i].callback);
    Py_VISIT(self->waiting.at[i].context);
  }
  return 0;
}

static int turn_clear(TurnObject *self) {
  Py_CLEAR(self->loop);
  Py_CLEAR(self->call_soon);
  clear(&self->waiting);
  return 0;
}

static void turn_dealloc(TurnObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  turn_clear(self);
  free(self->waiting.at);
  free(self->spare.at);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *fw_turn_new(PyTypeObject *type, PyObject *loop) {
  TurnObject *self = (TurnObject *)type->tp_alloc(type, 0);
  if (self == NULL)
    return NULL;
  self->loop = Py_NewRef(loop);
  self->call_soon = PyObject_GetAttrString(loop, "call_soon");
  if (self->call_soon != NULL)
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

PyObject *fw_turn_yield(PyObject *turn) {
  ((TurnObject *)turn)->blocking = 1;
  return Py_NewRef(turn);
}

static PyMethodDef turn_methods[] = {
    {"add_done_callback", (PyCFunction)(void (*)(void))turn_add_done_callback, METH_FASTCALL | METH_KEYWORDS,
     "add_done_callback(callback, *, context): it is called in the loop's next turn"},
    {"get_loop", (PyCFunction)turn_get_loop, METH_NOARGS, "get_loop(): the loop whose turn it is"},
    {"result", (PyCFunction)turn_result, METH_NOARGS, "result(): None"},
    {"cancel", (PyCFunction)(void (*)(void))turn_cancel, METH_FASTCALL | METH_KEYWORDS, "cancel(msg=None): False"},
    {"run", (PyCFunction)turn_run, METH_NOARGS, "run(): calls those that wait"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef turn_getset[] = {
    {"_asyncio_future_blocking", (getter)get_blocking, (setter)set_blocking, "the mark of what can be awaited", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_dealloc, turn_dealloc},
    {Py_tp_traverse, turn_traverse},
    {Py_tp_clear, turn_clear},
    {Py_tp_methods, turn_methods},
    {Py_tp_getset, turn_getset},
    {Py_tp_doc, "The next turn of an event loop."},
    {0, NULL},
};

PyType_Spec fw_turn_spec = {
    .name = "fanwidth._core.Turn",
    .basicsize = sizeof(TurnObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = turn_slots,
};
