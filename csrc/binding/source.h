/* source.h: the Python iterator behind a run of a native action: pulls items, turns them into durations, keeps those in flight. */
#ifndef FW_BINDING_SOURCE_H
#define FW_BINDING_SOURCE_H

#include "binding.h"

typedef struct fw_held {
  uint64_t index;
  PyObject *item; /* owned */
} fw_held;

typedef struct fw_source {
  PyObject *iterator;    /* borrowed */
  int item_is_time;      /* each item is the seconds of its own delay */
  fw_ledger *ledger;     /* borrowed */
  PyThreadState *thread; /* the caller's, while it is without the GIL */
  PyObject *report;      /* borrowed; called with (done, failed), or NULL */

  PyObject *failures; /* owned list of (index, item, exception): items whose value is none */
  int64_t *drawn_ns;  /* owned by PyMem_Raw; the times of the items that started, where they are their own */
  fw_held *held;      /* owned; items that may yet fail */
  size_t drawn_capacity, held_count, held_capacity;
  int holds_items; /* whether an item can fail after its start, so that it must be kept for its failure */

  PyObject *raised_type, *raised, *traceback; /* owned: what ended the run */
  int interrupted;                            /* it came from a signal or the report, not from the source */
} fw_source;

/* Members of fw_host; the context is the fw_source. */
int fw_source_tick(void *context, uint64_t done, uint64_t failed);
int fw_source_pull(void *context, fw_run *run, uint64_t may);

/* The seconds of a time as ns. -1 with an exception set that names `what`. */
int64_t fw_read_seconds(PyObject *seconds, const char *what);

/* After the run: {index: item} of the held items that failed or timed out. NULL with an exception set. */
PyObject *fw_source_failed_items(fw_source *source);
void fw_source_clear(fw_source *source);

#endif
