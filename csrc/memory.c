/* memory: small blocks from the heap, large ones as mappings with huge pages, all of them counted. */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first touch of a page is the engine's largest cost; a huge page is touched once where 512 small ones would be. */
#define MAPPED_FROM ((size_t)1 << 20)

static void *map(size_t bytes) {
  void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED)
    return NULL;
#ifdef MADV_HUGEPAGE
  madvise(block, bytes, MADV_HUGEPAGE); /* a wish: a refusal costs speed only */
#endif
  return block;
}

static void system_release(void *context, void *block, size_t bytes) {
  (void)context;
  if (bytes >= MAPPED_FROM)
    munmap(block, bytes);
  else
    free(block);
}

static void *system_resize(void *context, void *block, size_t old_bytes, size_t bytes) {
  if (bytes < MAPPED_FROM && old_bytes < MAPPED_FROM) {
    char *grown = realloc(block, bytes);
    if (grown != NULL && bytes > old_bytes)
      memset(grown + old_bytes, 0, bytes - old_bytes);
    return grown;
  }
  void *fresh = bytes >= MAPPED_FROM ? map(bytes) : calloc(1, bytes);
  if (fresh == NULL || block == NULL)
    return fresh;
  memcpy(fresh, block, old_bytes < bytes ? old_bytes : bytes);
  system_release(context, block, old_bytes);
  return fresh;
}

const fw_memory fw_system_memory = {.resize = system_resize, .release = system_release};

void *fw_resize(fw_arena *arena, void *block, size_t old_bytes, size_t bytes) {
  void *resized = arena->memory->resize(arena->memory->context, block, block == NULL ? 0 : old_bytes, bytes);
  if (resized == NULL)
    return NULL;
  arena->bytes += bytes - (block == NULL ? 0 : old_bytes);
  if (arena->bytes > arena->peak_bytes)
    arena->peak_bytes = arena->bytes;
  return resized;
}

void fw_touch(void *start, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)start / page * page;
  if (bytes >= MAPPED_FROM)
    madvise((void *)first, (uintptr_t)start + bytes - first, MADV_POPULATE_WRITE); /* a wish, too */
#else
  (void)start, (void)bytes;
#endif
}

void fw_release(fw_arena *arena, void *block, size_t bytes) {
  if (block == NULL)
    return;
  arena->memory->release(arena->memory->context, block, bytes);
  arena->bytes -= bytes;
}
