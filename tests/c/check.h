/* check.h: what every C test includes: checks that print the failing expression with its values and let the test go on. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>

#define CHECK(condition) check_true(__FILE__, __LINE__, #condition, (condition) ? 1 : 0)

/* Integers of any type; both sides are compared, and printed, as 64 signed bits. */
#define CHECK_EQUAL(got, wanted) check_equal(__FILE__, __LINE__, #got " == " #wanted, (int64_t)(got), (int64_t)(wanted))
#define CHECK_AT_MOST(got, most) check_at_most(__FILE__, __LINE__, #got " <= " #most, (int64_t)(got), (int64_t)(most))

/* Equal but for `tolerance`, absolute. */
#define CHECK_NEAR(got, wanted, tolerance) \
  check_near(__FILE__, __LINE__, #got " ~ " #wanted, (long double)(got), (long double)(wanted), (long double)(tolerance))

/* Runs a test function under its name, which stands before the failures of it. */
#define TEST(function) check_run(#function, function)

/* Each gives 1 where the check holds. */
int check_true(const char *file, int line, const char *text, int holds);
int check_equal(const char *file, int line, const char *text, int64_t got, int64_t wanted);
int check_at_most(const char *file, int line, const char *text, int64_t got, int64_t most);
int check_near(const char *file, int line, const char *text, long double got, long double wanted, long double tolerance);
void check_run(const char *name, void (*function)(void));

/* What a test prints before a failure, so that a table's row or a seed is known; NULL: nothing. Borrowed. */
void check_context(const char *text);

/* How many checks have failed so far. */
uint64_t check_failures(void);

/* What main returns: 0, or 1 after printing how many checks failed. */
int check_report(void);

/* A generator for tests: reproducible, the same on every platform. */
typedef struct random_source {
  uint64_t state;
} random_source;
uint64_t random_bits(random_source *random);
uint64_t random_below(random_source *random, uint64_t bound); /* bound >= 1 */

/* The test was started as `program short`, for tools under which everything takes 50 times as long. */
int check_short(int argc, char **argv);

#endif
