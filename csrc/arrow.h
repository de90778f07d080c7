/* arrow.h: hands a table to other programs by the Arrow C stream interface. Anyone may include it; it knows no Python.
 *
 * A receiver may release what it got at any time and on any thread: while an exception is on its way, without the GIL,
 * after the interpreter has ended. So all of it is plain memory of its own, which no Python code has to free.
 */
#ifndef FW_ARROW_H
#define FW_ARROW_H

#include <stddef.h>
#include <stdint.h>

/* The three structs are fixed by https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. */
struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

enum { FW_ARROW_BUFFERS = 3 };

typedef struct fw_arrow_column {
  const char *name;                      /* borrowed, UTF-8 */
  const char *format;                    /* borrowed, "l", "g", "u", ... */
  int64_t null_count;                    /* values that are missing */
  int n_buffers;                         /* 2, or 3 for text: validity, (offsets,) data */
  const void *buffers[FW_ARROW_BUFFERS]; /* borrowed, copied; NULL: none */
  size_t bytes[FW_ARROW_BUFFERS];        /* of each buffer */
} fw_arrow_column;

/* A stream of one batch of `length` rows, which owns copies of everything. 0 or -ENOMEM. */
int fw_arrow_open(struct ArrowArrayStream *out, int64_t length, const fw_arrow_column *columns, size_t n_columns);

#endif
