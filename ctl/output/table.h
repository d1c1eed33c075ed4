/* table: text for people: aligned columns, colours on a terminal only. Text from clients and
 * endpoints cannot control the terminal. For all commands. */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include "alloc.h"
#include "rc.h"
#include <stdio.h>

struct json_t;

enum { TABLE_COLUMNS_MAX = 12 };

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW };

struct table {
    int columns;
    char **cells;
    enum colour *colours;
    size_t count, capacity;
};

/* `heads`: names of the columns, NULL after the last; copied. "(UTC)" in one is printed as
 * "(local time)" with --local. */
void table_init(struct table *t, const char *const *heads);
void table_fini(struct table *t);
/* Adds the next cell, row by row; a copy, as harmless() makes it. */
void table_add(struct table *t, enum colour colour, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* Prints two spaces between columns, and none after the last. */
void table_print(const struct table *t, FILE *to, bool colour, int indent);

/* A copy in which each control character is `?`; the caller's. Invalid UTF-8 stays: it cannot
 * control a terminal. Pure. */
char *harmless(const char *text);
/* "issue.*, cycle.* and 3 more": the first `max` texts of a JSON list; the caller's. */
char *join_strings(const struct json_t *strings, size_t max);
/* Width in characters. */
size_t text_width(const char *text);

/* "\033[…m", or "" without colour. */
const char *colour_on(enum colour c, bool colour);
const char *colour_off(enum colour c, bool colour);

/* "12 MiB", "3m 10s" into `out`; returns out. */
const char *human_bytes(int64_t bytes, char out[32]);
const char *human_ms(int64_t ms, char out[32]);

#endif
