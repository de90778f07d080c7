/* action.h: what a kind of native action is. One file in actions/ defines each; actions/list.h names them all. */
#ifndef FW_ACTION_H
#define FW_ACTION_H

#include "run.h"

typedef struct fw_action {
  const char *name;

  /* Timed actions. Times are ns since the run's start. A missing `start` means that every item ends as it starts. */
  int (*start)(fw_run *run, uint64_t first, uint64_t count, int64_t now_ns); /* 0 or a negative errno */
  int64_t (*next)(const fw_run *run, int64_t slack_ns); /* when to wake, at most slack_ns late; FW_NEVER: not at all */
  int (*settle)(fw_run *run, int64_t due_ns);           /* ends what is due, some thousand items at most; 0 or errno */

  /* Runs item `index` on the caller, a thread of the run that holds no lock; gives its final state. NULL: nothing blocks.
     The virtual clock uses the three members above instead. */
  int (*work)(fw_run *run, uint64_t index, int64_t start_ns);

  /* What the action keeps beside the ledger; both may be NULL. */
  int (*open)(fw_run *run);
  void (*close)(fw_run *run);
} fw_action;

/* All of them, ended by NULL. */
extern const fw_action *const fw_actions[];

#endif
