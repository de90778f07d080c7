/* memory.h: the engine's memory functions, handed in as a struct so that tests can make any allocation fail. */
#ifndef FW_MEMORY_H
#define FW_MEMORY_H

#include <stddef.h>

typedef struct fw_memory {
  void *context;                                                               /* borrowed; first argument of both */
  void *(*resize)(void *context, void *block, size_t old_bytes, size_t bytes); /* block NULL: allocate; NULL: no memory */
  void (*release)(void *context, void *block, size_t bytes);                   /* block may be NULL */
} fw_memory;

/* The system's: small blocks from the heap, blocks above 1 MiB as mappings with huge pages. */
extern const fw_memory fw_system_memory;

/* What a run has taken. Not shared between threads without the run's lock. */
typedef struct fw_arena {
  const fw_memory *memory; /* borrowed */
  size_t bytes;            /* held now */
  size_t peak_bytes;       /* the most ever held */
} fw_arena;

/* New bytes are zero. NULL when there is no memory: the old block is then untouched. */
void *fw_resize(fw_arena *arena, void *block, size_t old_bytes, size_t bytes);

/* Has the pages of [start, start + bytes) of a large block ready before they are needed, where the system can do that. */
void fw_touch(void *start, size_t bytes);

void fw_release(fw_arena *arena, void *block, size_t bytes);

#endif
