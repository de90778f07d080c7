/* arrow: one batch of columns as an Arrow C stream; every array and schema is a block that its release frees. */
#include "arrow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes, as the Arrow format recommends for buffers */

typedef struct stream_state {
  struct ArrowSchema schema; /* owned; copied for each who asks */
  struct ArrowArray batch;   /* owned until it is taken; then its release is NULL */
} stream_state;

/* Children may have been moved out by the receiver: then their release is NULL, and they live on their own. */

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++)
    if (schema->children[i]->release != NULL)
      schema->children[i]->release(schema->children[i]);
  free(schema->private_data);
  schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release != NULL)
      array->children[i]->release(array->children[i]);
  free(array->private_data);
  array->release = NULL;
}

/* A column's schema; its block holds the two texts. */
static int open_field(struct ArrowSchema *out, const char *format, const char *name) {
  size_t format_bytes = strlen(format) + 1, name_bytes = strlen(name) + 1;
  char *block = malloc(format_bytes + name_bytes);
  if (block == NULL)
    return -ENOMEM;
  memcpy(block, format, format_bytes);
  memcpy(block + format_bytes, name, name_bytes);
  *out = (struct ArrowSchema){
      .format = block, .name = block + format_bytes, .flags = 2 /* nullable */, .release = release_schema, .private_data = block};
  return 0;
}

/* A struct of `n` columns, as yet released ones; its block holds them. */
static int open_schema(struct ArrowSchema *out, size_t n) {
  void *block = calloc(n + 1, sizeof(struct ArrowSchema *) + sizeof(struct ArrowSchema)); /* + 1: no block of 0 bytes */
  if (block == NULL)
    return -ENOMEM;
  struct ArrowSchema **pointers = block;
  struct ArrowSchema *children = (struct ArrowSchema *)(pointers + n);
  for (size_t i = 0; i < n; i++)
    pointers[i] = &children[i];
  *out = (struct ArrowSchema){.format = "+s",
                              .name = "",
                              .n_children = (int64_t)n,
                              .children = pointers,
                              .release = release_schema,
                              .private_data = block};
  return 0;
}

/* The values of a column; its block holds the pointers, then the buffers. */
static int open_values(struct ArrowArray *out, int64_t length, const fw_arrow_column *column) {
  size_t bytes = ALIGNMENT;
  for (int i = 0; i < column->n_buffers; i++)
    bytes += (column->bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *block;
  if (posix_memalign(&block, ALIGNMENT, bytes) != 0)
    return -ENOMEM;
  memset(block, 0, bytes); /* the padding too: receivers may read whole words of it */
  const void **buffers = block;
  char *place = (char *)block + ALIGNMENT;
  for (int i = 0; i < column->n_buffers; i++) {
    if (column->buffers[i] == NULL)
      continue;
    buffers[i] = memcpy(place, column->buffers[i], column->bytes[i]);
    place += (column->bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  *out = (struct ArrowArray){.length = length,
                             .null_count = column->null_count,
                             .n_buffers = column->n_buffers,
                             .buffers = buffers,
                             .release = release_array,
                             .private_data = block};
  return 0;
}

/* A struct array of `n` columns, as yet released ones; its block holds them and its own (absent) validity. */
static int open_batch(struct ArrowArray *out, int64_t length, size_t n) {
  size_t head = 1 + n; /* pointers: one buffer, n children */
  void *block = calloc(1, head * sizeof(void *) + n * sizeof(struct ArrowArray));
  if (block == NULL)
    return -ENOMEM;
  const void **buffers = block;
  struct ArrowArray **pointers = (struct ArrowArray **)block + 1;
  struct ArrowArray *children = (struct ArrowArray *)((void **)block + head);
  for (size_t i = 0; i < n; i++)
    pointers[i] = &children[i];
  *out = (struct ArrowArray){.length = length,
                             .n_buffers = 1,
                             .n_children = (int64_t)n,
                             .buffers = buffers,
                             .children = pointers,
                             .release = release_array,
                             .private_data = block};
  return 0;
}

/* The functions of a stream. Errors are positive, as the interface wants them. */

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  const struct ArrowSchema *from = &((stream_state *)stream->private_data)->schema;
  struct ArrowSchema copy;
  if (open_schema(&copy, (size_t)from->n_children) < 0)
    return ENOMEM;
  for (int64_t i = 0; i < from->n_children; i++) {
    if (open_field(copy.children[i], from->children[i]->format, from->children[i]->name) < 0) {
      release_schema(&copy);
      return ENOMEM;
    }
  }
  *out = copy;
  return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  stream_state *state = stream->private_data;
  *out = state->batch; /* when it has been taken: all zeros, which is the end */
  state->batch = (struct ArrowArray){0};
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL; /* want of memory, the only error, needs no words */
}

static void release_state(stream_state *state) {
  if (state->schema.release != NULL)
    state->schema.release(&state->schema);
  if (state->batch.release != NULL)
    state->batch.release(&state->batch);
  free(state);
}

static void release_stream(struct ArrowArrayStream *stream) {
  release_state(stream->private_data);
  stream->release = NULL;
}

int fw_arrow_open(struct ArrowArrayStream *out, int64_t length, const fw_arrow_column *columns, size_t n_columns) {
  stream_state *state = calloc(1, sizeof *state);
  if (state == NULL)
    return -ENOMEM;
  if (open_schema(&state->schema, n_columns) < 0 || open_batch(&state->batch, length, n_columns) < 0)
    goto no_memory;
  for (size_t i = 0; i < n_columns; i++) {
    if (open_field(state->schema.children[i], columns[i].format, columns[i].name) < 0 ||
        open_values(state->batch.children[i], length, &columns[i]) < 0)
      goto no_memory;
  }
  *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                   .get_next = get_next,
                                   .get_last_error = get_last_error,
                                   .release = release_stream,
                                   .private_data = state};
  return 0;

no_memory:
  release_state(state);
  return -ENOMEM;
}
