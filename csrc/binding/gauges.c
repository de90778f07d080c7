/* gauges: what Python reads and sets of a feed. */
#include "callables.h"

#define OBJECT(name)                                             \
  static PyObject *get_##name(FeedObject *self, void *closure) { \
    (void)closure;                                               \
    return Py_NewRef(self->name == NULL ? Py_None : self->name); \
  }
#define NUMBER(name, value)                                      \
  static PyObject *get_##name(FeedObject *self, void *closure) { \
    (void)closure;                                               \
    return PyLong_FromLongLong((long long)(value));              \
  }
OBJECT(ledger_object)
OBJECT(results)
OBJECT(failures)
OBJECT(items)
OBJECT(raised)
NUMBER(over, fw_feed_over(self))
NUMBER(handing_over, self->handing_over)
NUMBER(wants_item, fw_threads_to_do(self) == FW_DO_PULL)
NUMBER(hired, self->hired)
NUMBER(hired_ever, self->hired_ever)
NUMBER(alive, self->alive)
NUMBER(pulling_ns, self->pulling_ns)
NUMBER(cpu_ns, self->cpu_ns)
NUMBER(held_ns, self->held_ns + (self->held_since_ns == 0 ? 0 : fw_feed_now(self) - self->held_since_ns))
NUMBER(now_ns, fw_feed_now(self))
NUMBER(limit, self->ledger->counts.limit)

static int set_limit(FeedObject *self, PyObject *value, void *closure) {
  (void)closure;
  uint64_t limit;
  if (value == NULL || fw_read_count(value, &limit) < 0)
    return -1;
  self->ledger->counts.limit = limit;
  if (self->most_hired < limit)
    self->most_hired = limit;
  fw_feed_changed(self);
  return 0;
}

static int set_most_threads(FeedObject *self, PyObject *value, void *closure) {
  (void)closure;
  return value == NULL ? -1 : fw_read_count(value, &self->most_hired);
}

static int set_pulling_ns(FeedObject *self, PyObject *value, void *closure) {
  (void)closure;
  self->pulling_ns = value == NULL ? 0 : PyLong_AsLongLong(value);
  return PyErr_Occurred() ? -1 : 0;
}

static int set_pulled(FeedObject *self, PyObject *value, void *closure) {
  (void)closure;
  return value == NULL ? -1 : fw_read_count(value, &self->ledger->pulled);
}

/* `closure`: where in the object the callable is kept. */
static int set_callable(FeedObject *self, PyObject *value, void *closure) {
  PyObject **place = (PyObject **)((char *)self + (size_t)closure);
  Py_XSETREF(*place, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
  return 0;
}

PyGetSetDef fw_feed_getset[] = {
    {"ledger", (getter)get_ledger_object, NULL, "the run's Ledger", NULL},
    {"results", (getter)get_results, NULL, "list by index, or None", NULL},
    {"failures", (getter)get_failures, NULL, "list of (index, item, exception)", NULL},
    {"items", (getter)get_items, NULL, "list of all items, where they were read before the first start", NULL},
    {"raised", (getter)get_raised, NULL, "the exception that ends the run, or None", NULL},
    {"over", (getter)get_over, NULL, "nothing more will start", NULL},
    {"handing_over", (getter)get_handing_over, NULL, "the action turned out to be async", NULL},
    {"wants_item", (getter)get_wants_item, NULL, "an item that is offered now could start", NULL},
    {"hired", (getter)get_hired, NULL, "threads", NULL},
    {"hired_ever", (getter)get_hired_ever, NULL, "threads, with those that have left", NULL},
    {"alive", (getter)get_alive, NULL, "workers on the loop", NULL},
    {"pulling_ns", (getter)get_pulling_ns, (setter)set_pulling_ns, "spent in the source", NULL},
    {"cpu_ns", (getter)get_cpu_ns, NULL, "CPU time of the threads that have left", NULL},
    {"held_ns", (getter)get_held_ns, NULL, "time in which a full buffer let nothing start", NULL},
    {"now_ns", (getter)get_now_ns, NULL, "since the run's start", NULL},
    {"limit", (getter)get_limit, (setter)set_limit, "may be set while the run goes on", NULL},
    {"pulled", NULL, (setter)set_pulled, "items that somebody else has read so far, to be given", NULL},
    {"most_threads", NULL, (setter)set_most_threads, "no more threads than this", NULL},
    {"listener", NULL, (setter)set_callable, "called once, when the driver has something to do",
     (void *)offsetof(FeedObject, listener)},
    {"reader", NULL, (setter)set_callable, "called once, when there is an outcome", (void *)offsetof(FeedObject, reader)},
    {"governor", NULL, (setter)set_callable, "makes the loop call look(), from any thread",
     (void *)offsetof(FeedObject, governor)},
    {"closer", NULL, (setter)set_callable, "called once, when the last worker has retired", (void *)offsetof(FeedObject, closer)},
    {NULL, NULL, NULL, NULL, NULL},
};
