/* crew.h: the threads of a blocking action, each of which takes its next item itself. They belong to the run and end with it. */
#ifndef FW_CREW_H
#define FW_CREW_H

#include "engine.h"

#include <uv.h>

typedef struct fw_crew {
  uv_thread_t *threads; /* owned */
  uint64_t capacity;    /* of `threads`: the most there may be */
  uint64_t count, idle; /* threads there are, and those of them that wait for an item */
  uint64_t taken;       /* items taken, <= counts.started */
  int refused;          /* the system has no more threads for us */
  uv_cond_t item;       /* idle threads wait on it */
} fw_crew;

/* All but open and close are called with the run's lock held. 0 or a negative errno. */
int fw_crew_open(fw_run *run);
void fw_crew_close(fw_run *run); /* joins the threads; run->over has been set */

/* An item can be taken: wakes an idle thread or starts one. -EAGAIN only where there is no thread at all. */
int fw_crew_call(fw_run *run);

/* A thread of the run that takes no signals (engine.c). 0 or a negative errno. */
int fw_quiet_thread(uv_thread_t *thread, const uv_thread_options_t *options, uv_thread_cb entry, fw_run *run);

#endif
