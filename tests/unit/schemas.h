/* schemas: store.sql and the steps in upgrade/ are two texts of one schema, for readers and
 * for older files. Whatever one makes, the other must make. */
#ifndef UNIT_SCHEMAS_H
#define UNIT_SCHEMAS_H

#include "alloc.h"
#include "db.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCHEMA_BYTES = 256 * 1024, SCHEMA_LINES = 1000 };

/* What a file consists of: a line for each column, constraint, index, trigger and first
 * row, in any order. */
struct schema_lines {
    char *at[SCHEMA_LINES];
    size_t count;
};

static inline void schema_line(struct schema_lines *l, const char *kind,
                               const char *text)
{
    assert_in_range(l->count, 0, SCHEMA_LINES - 1);
    l->at[l->count++] = gr_printf("%s: %s", kind, text);
}

/* The next token of a statement, without comments and the quotes of names; its length.
 * 0: the end. */
static inline int schema_token(const char **sql)
{
    const char *p = *sql, *end;

    while (isspace((unsigned char)*p) || *p == '"' || strncmp(p, "--", 2) == 0)
        p = *p == '-' ? p + strcspn(p, "\n") : p + 1;
    end = p;
    if (isalnum((unsigned char)*p) || *p == '_')
        while (isalnum((unsigned char)*end) || *end == '_')
            end++;
    else if (*p == '\'')
        end += strcspn(p + 1, "'") + 2;
    else if (*p)
        end++;
    *sql = p;
    return (int)(end - p);
}

/* Of a table: a line for each item between the outer brackets, and one for the rest. */
static inline void schema_statement(struct schema_lines *l, const char *name,
                                    const char *sql, bool is_table)
{
    struct buf item, frame;
    int n, depth = 0;

    buf_init(&item, SCHEMA_BYTES);
    buf_init(&frame, SCHEMA_BYTES);
    for (; (n = schema_token(&sql)) > 0; sql += n) {
        struct buf *to = is_table && depth > 0 ? &item : &frame;

        depth -= *sql == ')';
        if (is_table &&
            ((depth == 1 && *sql == ',') || (depth == 0 && *sql == ')'))) {
            schema_line(l, name, item.data);
            buf_reset(&item);
        } else
            buf_printf(to, "%.*s ", n, sql);
        depth += *sql == '(';
    }
    schema_line(l, name, frame.data);
    buf_fini(&item);
    buf_fini(&frame);
}

static inline sqlite3_stmt *schema_query(struct db *db, char *sql)
{
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(db_handle(db), sql, -1, &s, NULL),
                     SQLITE_OK);
    free(sql);
    return s;
}

/* Some tables are not empty in a new file. A time of now is any time. */
static inline void schema_rows(struct schema_lines *l, struct db *db,
                               const char *table)
{
    sqlite3_stmt *columns = schema_query(
        db, gr_printf("SELECT name FROM pragma_table_info('%s')", table));

    while (sqlite3_step(columns) == SQLITE_ROW) {
        const char *c = (const char *)sqlite3_column_text(columns, 0);
        sqlite3_stmt *rows = schema_query(
            db, gr_printf("SELECT quote(iif(typeof(\"%s\") = 'integer' AND "
                          "\"%s\" > 1000000000000, 'now', \"%s\")) FROM %s",
                          c, c, c, table));

        while (sqlite3_step(rows) == SQLITE_ROW)
            schema_line(l, c, (const char *)sqlite3_column_text(rows, 0));
        sqlite3_finalize(rows);
    }
    sqlite3_finalize(columns);
}

static inline int schema_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void schema_read(struct schema_lines *l,
                               const struct db_schema *schema)
{
    char path[] = "/tmp/gr-schema-XXXXXX";
    char *command, *file;
    struct db *db;
    sqlite3_stmt *s;

    assert_non_null(mkdtemp(path));
    file = gr_printf("%s/x.db", path);
    db = db_open(file, schema);
    /* file_…: db_origin.c makes these tables, and their rows. */
    s = schema_query(
        db, gr_strdup("SELECT tbl_name || ', ' || name, sql, type = 'table', "
                      "name FROM sqlite_schema WHERE sql IS NOT NULL AND "
                      "name NOT LIKE 'sqlite_%' AND name NOT LIKE 'file_%'"));
    while (sqlite3_step(s) == SQLITE_ROW) {
        bool is_table = sqlite3_column_int(s, 2);

        schema_statement(l, (const char *)sqlite3_column_text(s, 0),
                         (const char *)sqlite3_column_text(s, 1), is_table);
        if (is_table)
            schema_rows(l, db, (const char *)sqlite3_column_text(s, 3));
    }
    sqlite3_finalize(s);
    assert_int_equal(db_number(db, db_prepare(db, "PRAGMA user_version"), -1),
                     schema->count);
    db_close(db);
    qsort(l->at, l->count, sizeof *l->at, schema_order);
    command = gr_printf("rm -r %s", path);
    assert_int_equal(system(command), 0);
    free(command);
    free(file);
}

static inline void schema_free(struct schema_lines *l)
{
    while (l->count > 0)
        free(l->at[--l->count]);
}

static inline void store_sql_is_what_all_steps_make(void **state)
{
    const struct db_schema *schema = *state;
    struct db_schema by_steps = *schema;
    struct schema_lines created = {.count = 0}, upgraded = {.count = 0};

    by_steps.create = NULL;
    schema_read(&created, schema);
    schema_read(&upgraded, &by_steps);
    assert_in_range(created.count, 40, SCHEMA_LINES);
    for (size_t i = 0; i < created.count || i < upgraded.count; i++)
        if (i == created.count || i == upgraded.count ||
            strcmp(created.at[i], upgraded.at[i]) != 0)
            fail_msg("in order, the first line that differs:\n"
                     "store.sql  %s\nupgrade/   %s",
                     i < created.count ? created.at[i] : "(none)",
                     i < upgraded.count ? upgraded.at[i] : "(none)");
    schema_free(&created);
    schema_free(&upgraded);
}

static inline int schemas_main(const struct db_schema *schema)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(store_sql_is_what_all_steps_make,
                                  (void *)schema),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
