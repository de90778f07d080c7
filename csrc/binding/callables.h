/* callables.h: a run whose action is a Python callable, as the files of the binding that run it see it. All of it is
   under the GIL, which the module never asks to be without (no Py_mod_gil slot): what runs no bytecode in between is atomic. */
#ifndef FW_CALLABLES_H
#define FW_CALLABLES_H

#include "binding.h"

#include "../clock.h"

/* One item in somebody's hands, from its pull to its end. */
typedef struct fw_ticket {
  PyObject *item;      /* owned; NULL: no item here */
  PyObject *context;   /* owned: the item's own contextvars, NULL until it starts */
  PyObject *awaitable; /* owned: what the action has returned already, else NULL */
  uint64_t index;
  int64_t start_ns; /* since the run's start */
} fw_ticket;

typedef struct fw_queue {
  fw_ticket *tickets; /* owned ring */
  size_t head, count, capacity;
} fw_queue;

typedef struct fw_idler fw_idler;
typedef struct FeedObject FeedObject;
typedef struct WorkerObject WorkerObject;
typedef struct TurnObject TurnObject;

/* _core.Feed. Owned references unless said otherwise. */
struct FeedObject {
  PyObject_HEAD
  PyObject *ledger_object;
  fw_ledger *ledger; /* borrowed from ledger_object */
  const fw_strategy *strategy;
  int64_t origin_ns; /* CLOCK_MONOTONIC at the run's start */
  PyObject *action;
  PyObject *context;         /* the caller's, copied for each item */
  PyObject *cancelled_error; /* asyncio.CancelledError, or NULL where asyncio is not in use */

  /* The source. */
  PyObject *iterator;       /* NULL once it has ended or failed, or where items are only offered */
  PyObject *items;          /* list of all items, where they were read before the first start */
  PyObject *source_context; /* the one context of all calls of next() */
  int runs_bytecode;        /* its next() may run Python code */
  int by_offer;             /* workers take what was offered; one other party pulls */
  int ended;                /* nothing more will be pulled */
  int taking;               /* next() calls in progress, reserved in the admission */
  uint64_t known;           /* length of a sized source, else FW_UNKNOWN; a hint only, until the source has ended */
  fw_queue offered;         /* pulled and not started */
  fw_queue returned;        /* started by a thread, and the action returned an awaitable */
  int64_t pulling_ns;       /* spent in a source that runs bytecode */

  /* What is kept. */
  PyObject *results;      /* list by index, or NULL */
  PyObject *failures;     /* list of (index, item, exception) */
  uint64_t failures_kept; /* at most */
  PyObject *raised;       /* the exception that ends the run, or NULL */
  PyObject *outbox;       /* list of outcomes nobody has collected, or NULL: not a stream */
  uint64_t held, buffer;  /* outcomes finished and not taken; from `buffer` on nothing starts */
  int64_t held_since_ns;  /* 0: the buffer is not full */
  int64_t held_ns;        /* time with a full buffer */

  /* What ends it early. */
  PyObject *token;         /* CancelToken or NULL */
  const atomic_int *flag;  /* borrowed from token, or NULL */
  int asked_to_stop;       /* by cancel() */
  int drains;              /* when the source fails, what is in flight runs to its end instead of being cancelled */
  int halted;              /* what is in flight has been cancelled, as far as it can be */
  int64_t deadline_ns;     /* of the run since its start, FW_NEVER: none */
  int64_t item_timeout_ns; /* FW_NEVER: none */
  double item_timeout;     /* the same in seconds */
  PyObject *item_timeout_text, *total_timeout_text; /* both in seconds, as messages have them */
  int abandoned;                                    /* nobody reads this feed any more: what is still running leaves no trace */
  int handing_over; /* an action returned an awaitable: threads take no more, the asyncio driver goes on */

  /* Whom to tell; each is called once and forgotten. */
  PyObject *listener; /* the driver waits for something to do */
  PyObject *reader;   /* a consumer waits for an outcome */
  PyObject *closer;   /* the asyncio driver waits for the last worker to retire */

  /* Threads (threads.c). */
  uint64_t hired;      /* threads that have been asked for and have not left */
  uint64_t hired_ever; /* and those that have */
  uint64_t starting;   /* of those: have not come for an item yet */
  uint64_t working;    /* of those: are in work() */
  uint64_t most_hired; /* no more threads than this */
  uint64_t waking;     /* were woken and do not run yet */
  uint64_t idle_count;
  fw_idler *idle; /* borrowed: each lives on its thread's stack */
  int has_setup;
  int64_t cpu_ns;          /* of threads that have left */
  PyThread_type_lock bell; /* the calling thread waits for it, where there is no listener */
  int bell_armed;

  /* Coroutines (coroutine.c). */
  PyTypeObject *worker_type;
  PyObject *create_task, *create_future, *loop_time, *owner_task; /* NULL in the threads driver */
  PyObject *turn;                        /* what workers that give way await; NULL in the threads driver */
  PyObject *governor;                    /* makes the loop call look(), from any thread */
  PyObject *setup_value;                 /* second argument of the action, or NULL */
  WorkerObject *workers;                 /* borrowed: workers unlink themselves */
  WorkerObject *parked;                  /* borrowed: those that wait for an item */
  uint64_t alive, parked_count, pending; /* workers; pending: were created and have not come for an item yet */
  int spawning;
};

/* _core.Worker. Owned references unless said otherwise. */
struct WorkerObject {
  PyObject_HEAD
  FeedObject *feed;          /* NULL once it has retired */
  PyObject *task;            /* NULL until create_task has returned */
  fw_ticket ticket;          /* of the item in its hands */
  PyObject *inner;           /* what is sent to: the item's awaitable, or that of `future` */
  PyObject *future;          /* not NULL: it is parked */
  double deadline;           /* of the item, by the loop's clock; meaningful where there is an item_timeout */
  int64_t now_ns;            /* when its last item ended, within this step; 0: it has not looked at the clock */
  int reason;                /* the state that our own cancellation of the item leads to; FW_OK: we have not cancelled it */
  int running, fresh, woken; /* fresh: has not made a step; woken: the future is set and the worker has not come yet */
  WorkerObject *previous, *next, *next_parked; /* borrowed */
};

static inline int64_t fw_feed_now(const FeedObject *feed) { return fw_monotonic_ns() - feed->origin_ns; }

/* The state of items that are cancelled since the run stops. */
static inline int fw_state_of_stop(const FeedObject *feed) {
  return feed->ledger->stop == FW_STOP_TIMEOUT ? FW_TIMED_OUT : FW_CANCELLED;
}

/* feed.c: the run itself. */
enum { FW_TAKEN, FW_WAIT, FW_END };
uint64_t fw_feed_may_start(const FeedObject *feed);
void fw_feed_changed(FeedObject *feed);              /* from outside, on any thread: the token, the limit, the buffer */
int fw_feed_over(const FeedObject *feed);            /* nothing more will start */
void fw_feed_look(FeedObject *feed, int64_t now_ns); /* at the cancel token and the deadline */
int fw_feed_take(FeedObject *feed, fw_ticket *ticket, int64_t now_ns);
PyObject *fw_feed_call(FeedObject *feed, fw_ticket *ticket, PyObject *value); /* value NULL: no second argument */
int fw_feed_pull(FeedObject *feed, PyObject **item);                          /* 1: an item; 0: the source has ended or failed */
int fw_feed_offer(FeedObject *feed, PyObject *item);
void fw_feed_stop(FeedObject *feed, int cause);
void fw_feed_raise(FeedObject *feed, int cause, PyObject *exception); /* it ends the run; stolen */
void fw_feed_kick(FeedObject *feed);                 /* something may have become possible: tells those who wait */
int fw_feed_read(FeedObject *feed);                  /* the whole source; 0, or -1 where it failed: the run has stopped then */
int fw_feed_give(FeedObject *feed, PyObject *items); /* the whole source as a list; 0, or -1 with an exception set */
void fw_feed_end(FeedObject *feed);                  /* nothing more will be offered */
void fw_feed_abandon(FeedObject *feed);
void fw_feed_tell(PyObject **whom);                        /* calls it and forgets it */
void fw_feed_discard(FeedObject *feed, fw_ticket *ticket); /* an item whose awaitable nobody will await */
int fw_is_awaitable(PyObject *object);

/* ends.c */
/* Ends the ticket's item and empties the ticket. Both values may be NULL and are stolen. */
void fw_feed_finish(FeedObject *feed, fw_ticket *ticket, int64_t now_ns, int state, PyObject *result, PyObject *exception);
void fw_feed_finish_raised(FeedObject *feed, fw_ticket *ticket, int64_t now_ns, PyObject *exception); /* stolen */
int fw_ends_run(PyObject *exception); /* SystemExit and KeyboardInterrupt of a job do */
PyObject *fw_timeout_error(const FeedObject *feed, uint64_t index, PyObject *cause); /* cause is stolen, may be NULL */

/* tickets.c */
int fw_queue_push(fw_queue *queue, fw_ticket ticket); /* takes the references over; 0, or -1 with an exception set */
fw_ticket fw_queue_pop(fw_queue *queue);
void fw_ticket_clear(fw_ticket *ticket);
void fw_queue_clear(fw_queue *queue);
int fw_queue_traverse(fw_queue *queue, visitproc visit, void *arg);

/* threads.c */
enum { FW_DO_NOTHING, FW_DO_HIRE, FW_DO_PULL, FW_DO_LEAVE };
int fw_threads_to_do(const FeedObject *feed);
void fw_threads_kick(FeedObject *feed);
PyObject *fw_threads_work(FeedObject *feed, PyObject *const *args, Py_ssize_t count);
PyObject *fw_threads_attend(FeedObject *feed, PyObject *seconds);
PyObject *fw_threads_hire(FeedObject *feed, PyObject *ignored);
PyObject *fw_threads_leave(FeedObject *feed, PyObject *came);

/* gauges.c */
extern PyGetSetDef fw_feed_getset[];

/* workers.c: the workers of a run on an event loop, together. */
void fw_workers_spawn(FeedObject *feed, uint64_t most); /* as many as may find an item */
void fw_workers_kick(FeedObject *feed);
void fw_workers_cancel(FeedObject *feed); /* all that have an item, for the cause that is in the ledger */
int fw_workers_expire(FeedObject *feed, double now, double *next); /* cancels the late; 0, or -1 with an exception set */
void fw_worker_link(WorkerObject *worker);
void fw_worker_unlink(WorkerObject *worker);
int fw_worker_park(WorkerObject *worker); /* 0, or -1 with an exception set */
void fw_worker_unpark(WorkerObject *worker);
void fw_worker_cancel(WorkerObject *worker, int reason);

/* coroutine.c: one of them. */
extern PyType_Spec fw_worker_spec;
WorkerObject *fw_worker_new(FeedObject *feed);
void fw_worker_retire(WorkerObject *worker);

/* turn.c: what it awaits when it gives way. */
extern PyType_Spec fw_turn_spec;
PyObject *fw_turn_new(PyTypeObject *type, PyObject *loop);
PyObject *fw_turn_yield(PyObject *turn); /* what to yield; owned */

/* await.c: an item in its hands. */
PyObject *fw_awaited(PyObject *awaitable); /* what to send to for its value; NULL with an exception set */
void fw_item_begin(WorkerObject *worker);  /* calls the action; there is something to await then, or the item has ended */
void fw_item_finish(WorkerObject *worker, PyObject *value); /* stolen; NULL: by the exception that is set */
/* Sends None, or throws, into what the worker awaits, in the context of its item if it has one. */
PySendResult fw_item_push(WorkerObject *worker, PyObject *thrown, PyObject **value);
int fw_worker_outlives(WorkerObject *worker, PyObject *thrown); /* 1: `thrown` met no item and was not meant for the worker */

/* The exception that is set, which is then no more; owned, with its traceback. */
static inline PyObject *fw_catch(void) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != NULL)
    PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
#endif
}

#endif
