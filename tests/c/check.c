/* check: counts and prints failed checks. Tests with threads call it on their main thread only. */
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PRINTED_AT_MOST = 20 }; /* a broken invariant in a loop of 10^5 says nothing new after these */

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
/* libuv closes descriptors by a bare system call, which the sanitizer does not see: when another thread gets the same number, it
   reports a race between the two openings. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:epoll_create1\nrace:pipe2\nrace:eventfd\n"; }
#endif

static const char *running = "", *context;
static uint64_t failures, checks;

static int failed(const char *file, int line, const char *text) {
  if (failures++ >= PRINTED_AT_MOST)
    return 0;
  fprintf(stderr, "%s:%d: %s: %s%s%s: ", file, line, running, context == NULL ? "" : context, context == NULL ? "" : ": ", text);
  return 1;
}

int check_true(const char *file, int line, const char *text, int holds) {
  checks++;
  if (!holds && failed(file, line, text))
    fprintf(stderr, "does not hold\n");
  return holds;
}

int check_equal(const char *file, int line, const char *text, int64_t got, int64_t wanted) {
  checks++;
  if (got != wanted && failed(file, line, text))
    fprintf(stderr, "%" PRId64 " is not %" PRId64 "\n", got, wanted);
  return got == wanted;
}

int check_at_most(const char *file, int line, const char *text, int64_t got, int64_t most) {
  checks++;
  if (got > most && failed(file, line, text))
    fprintf(stderr, "%" PRId64 " is more than %" PRId64 "\n", got, most);
  return got <= most;
}

int check_near(const char *file, int line, const char *text, long double got, long double wanted, long double tolerance) {
  int holds = fabsl(got - wanted) <= tolerance; /* not so for a NaN */
  checks++;
  if (!holds && failed(file, line, text))
    fprintf(stderr, "%.20Lg is not within %.3Lg of %.20Lg\n", got, tolerance, wanted);
  return holds;
}

void check_run(const char *name, void (*function)(void)) {
  running = name;
  context = NULL;
  function();
}

void check_context(const char *text) { context = text; }

uint64_t check_failures(void) { return failures; }

int check_report(void) {
  if (checks == 0)
    fprintf(stderr, "nothing was checked\n");
  if (failures > PRINTED_AT_MOST)
    fprintf(stderr, "...\n");
  if (failures > 0)
    fprintf(stderr, "%" PRIu64 " of %" PRIu64 " checks failed\n", failures, checks);
  return failures > 0 || checks == 0;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_bits(random_source *random) {
  uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint64_t random_below(random_source *random, uint64_t bound) { return random_bits(random) % bound; }

int check_short(int argc, char **argv) { return argc > 1 && strcmp(argv[1], "short") == 0; }
