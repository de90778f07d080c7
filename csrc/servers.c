/* servers: an item is served at once where a server is free, waits where the queue has a place, and fails otherwise. */
#include "run.h"

#include <errno.h>
#include <string.h>

static int grow_servers(fw_run *run) {
  fw_servers *s = &run->servers;
  uint64_t old = s->capacity, capacity = old == 0 ? 16 : old * 2;
  fw_server *at = fw_resize(&run->ledger->arena, s->at, old * sizeof *at, capacity * sizeof *at);
  if (at == NULL)
    return -ENOMEM;
  for (uint64_t i = old; i < capacity; i++)
    at[i].index = i + 1;
  s->at = at;
  s->capacity = capacity;
  return 0;
}

static int grow_queue(fw_run *run) {
  fw_servers *s = &run->servers;
  uint64_t old = s->queue_capacity, capacity = old == 0 ? 16 : old * 2;
  fw_server *queue = fw_resize(&run->ledger->arena, s->queue, old * sizeof *queue, capacity * sizeof *queue);
  if (queue == NULL)
    return -ENOMEM;
  memcpy(queue + old, queue, s->head * sizeof *queue); /* what had wrapped round moves to the new half */
  s->queue = queue;
  s->queue_capacity = capacity;
  return 0;
}

static int begin(fw_run *run, uint64_t index, int64_t start_ns, int64_t begin_ns) {
  fw_servers *s = &run->servers;
  if (s->free == s->capacity) {
    int rc = grow_servers(run);
    if (rc < 0)
      return rc;
  }
  uint64_t server = s->free, id = server;
  int64_t deadline_ns;
  int rc = fw_deadline(run, begin_ns, fw_draw(&run->time, index), start_ns, &id, &deadline_ns);
  if (rc == 0)
    rc = fw_deadlines_push(&run->deadlines, id, 1, deadline_ns);
  if (rc < 0)
    return rc;
  s->free = s->at[server].index;
  s->at[server] = (fw_server){.index = index, .start_ns = start_ns};
  s->busy++;
  return 0;
}

static int enqueue(fw_run *run, uint64_t index, int64_t start_ns) {
  fw_servers *s = &run->servers;
  if (s->length == s->queue_capacity) {
    int rc = grow_queue(run);
    if (rc < 0)
      return rc;
  }
  s->queue[(s->head + s->length++) & (s->queue_capacity - 1)] = (fw_server){.index = index, .start_ns = start_ns};
  return 0;
}

static fw_server dequeue(fw_servers *s) {
  fw_server head = s->queue[s->head];
  s->head = (s->head + 1) & (s->queue_capacity - 1);
  s->length--;
  return head;
}

int fw_servers_start(fw_run *run, uint64_t first, uint64_t count, int64_t now_ns) {
  int rc = 0;
  for (uint64_t index = first; rc == 0 && index < first + count; index++) {
    if (run->servers.busy < run->plan->capacity)
      rc = begin(run, index, now_ns, now_ns);
    else if (run->servers.length < run->plan->queue)
      rc = enqueue(run, index, now_ns);
    else
      fw_ledger_finish(run->ledger, index, 1, now_ns, now_ns, FW_FAILED);
  }
  return rc;
}

/* Items come in the order of their time-outs, all being equally long, so only the head of the queue can be the next. */
static int64_t queue_timeout(const fw_run *run) {
  const fw_servers *s = &run->servers;
  if (s->length == 0 || run->plan->item_timeout_ns == FW_NEVER)
    return FW_NEVER;
  int64_t given_up;
  return __builtin_add_overflow(s->queue[s->head].start_ns, run->plan->item_timeout_ns, &given_up) ? FW_NEVER : given_up;
}

int64_t fw_servers_next(const fw_run *run, int64_t slack_ns) {
  int64_t served = fw_deadlines_wake(&run->deadlines, slack_ns), given_up = queue_timeout(run);
  return served < given_up ? served : given_up;
}

static int finish_service(fw_run *run, uint64_t id, int64_t done_ns, int64_t now_ns) {
  fw_servers *s = &run->servers;
  uint64_t server = id & ~FW_LATE;
  fw_server served = s->at[server];
  s->at[server].index = s->free;
  s->free = server;
  s->busy--;
  fw_ledger_finish(run->ledger, served.index, 1, served.start_ns, now_ns, id & FW_LATE ? FW_TIMED_OUT : FW_OK);
  if (s->length == 0 || fw_halts(run))
    return 0;
  /* A downstream is not slowed by our being woken late: its server goes on at the moment it became free. */
  fw_server next = dequeue(s);
  return begin(run, next.index, next.start_ns, done_ns > next.start_ns ? done_ns : next.start_ns);
}

int fw_servers_settle(fw_run *run, int64_t due_ns) {
  int64_t now_ns = fw_clock_now(&run->clock);
  for (int ended = 0; ended < FW_SETTLE_AT_MOST; ended++) {
    int64_t given_up = queue_timeout(run);
    fw_range done;
    if (ended % FW_STAMP_EVERY == 0)
      now_ns = fw_clock_now(&run->clock);
    int rc = fw_deadlines_pop(&run->deadlines, due_ns < given_up ? due_ns : given_up, &done);
    if (rc < 0)
      return rc;
    if (rc > 0) {
      for (uint64_t i = 0; i < done.count; i++) {
        rc = finish_service(run, done.first + i, done.deadline_ns, now_ns);
        if (rc < 0)
          return rc;
      }
    } else if (given_up <= due_ns) {
      fw_server head = dequeue(&run->servers);
      fw_ledger_finish(run->ledger, head.index, 1, head.start_ns, now_ns, FW_TIMED_OUT);
    } else {
      break;
    }
  }
  return 0;
}

void fw_servers_close(fw_run *run) {
  fw_servers *s = &run->servers;
  fw_release(&run->ledger->arena, s->at, s->capacity * sizeof *s->at);
  fw_release(&run->ledger->arena, s->queue, s->queue_capacity * sizeof *s->queue);
}
