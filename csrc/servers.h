/* servers.h: a model of c servers with a first-come-first-served queue: the timed half of `service` and of `cpu`. */
#ifndef FW_SERVERS_H
#define FW_SERVERS_H

#include "engine.h"

typedef struct fw_server {
  uint64_t index;   /* of the item it serves; of a free one: the next free server */
  int64_t start_ns; /* when that item came, not when its service began */
} fw_server;

typedef struct fw_servers {
  fw_server *at;                         /* owned; as many as have ever been busy at once */
  uint64_t capacity;                     /* of `at` */
  uint64_t busy, free;                   /* free: the first free one of those in `at`; capacity: none */
  fw_server *queue;                      /* owned; a ring of waiting items */
  uint64_t queue_capacity, head, length; /* capacity: 0 or a power of two */
} fw_servers;

/* Members of fw_action, in its order. They serve `plan->capacity` items at a time. */
int fw_servers_start(fw_run *run, uint64_t first, uint64_t count, int64_t now_ns);
int64_t fw_servers_next(const fw_run *run, int64_t slack_ns);
int fw_servers_settle(fw_run *run, int64_t due_ns);
void fw_servers_close(fw_run *run);

#endif
