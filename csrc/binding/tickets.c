/* tickets: items in somebody's hands, and queues of them. */
#include "callables.h"

#include <stdlib.h>

void fw_ticket_clear(fw_ticket *ticket) {
  Py_CLEAR(ticket->item);
  Py_CLEAR(ticket->context);
  Py_CLEAR(ticket->awaitable);
}

int fw_queue_push(fw_queue *queue, fw_ticket ticket) {
  if (queue->count == queue->capacity) {
    size_t capacity = queue->capacity == 0 ? 16 : queue->capacity * 2;
    fw_ticket *grown = malloc(capacity * sizeof *grown);
    if (grown == NULL) {
      fw_ticket_clear(&ticket);
      PyErr_NoMemory();
      return -1;
    }
    for (size_t i = 0; i < queue->count; i++)
      grown[i] = queue->tickets[(queue->head + i) % queue->capacity];
    free(queue->tickets);
    *queue = (fw_queue){.tickets = grown, .count = queue->count, .capacity = capacity};
  }
  queue->tickets[(queue->head + queue->count++) % queue->capacity] = ticket;
  return 0;
}

fw_ticket fw_queue_pop(fw_queue *queue) {
  fw_ticket ticket = queue->tickets[queue->head];
  queue->head = (queue->head + 1) % queue->capacity;
  queue->count--;
  return ticket;
}

void fw_queue_clear(fw_queue *queue) {
  while (queue->count > 0) {
    fw_ticket ticket = fw_queue_pop(queue);
    fw_ticket_clear(&ticket);
  }
  free(queue->tickets);
  *queue = (fw_queue){0};
}

int fw_queue_traverse(fw_queue *queue, visitproc visit, void *arg) {
  for (size_t i = 0; i < queue->count; i++) {
    fw_ticket *ticket = &queue->tickets[(queue->head + i) % queue->capacity];
    Py_VISIT(ticket->item);
    Py_VISIT(ticket->context);
    Py_VISIT(ticket->awaitable);
  }
  return 0;
}
