/* plans: how a store's statements find their rows. One that walks a table does
 * so once too often when that table has grown for a month, and all wait for it:
 * each process is one thread. */
#ifndef UNIT_PLANS_H
#define UNIT_PLANS_H

#include "alloc.h"
#include "db.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Is this step of a plan a walk that nothing bounds? A walk along an index, or
 * along the table's own order, that ends with a LIMIT is bounded. */
static inline bool plan_walks(const char *sql, const char *step)
{
    return strncmp(step, "SCAN ", 5) == 0 && !strstr(step, "CONSTANT ROW") &&
           !strstr(step, "(subquery") && !strstr(step, "VIRTUAL TABLE") &&
           !strstr(sql, "LIMIT");
}

/* A sort reads all before it gives the first. */
static inline bool plan_sorts(const char *step)
{
    return strstr(step, "USE TEMP B-TREE") != NULL;
}

static inline bool plan_is_allowed(const char *sql, const char *const *allowed)
{
    for (; *allowed; allowed++)
        if (strstr(sql, *allowed))
            return true;
    return false;
}

static inline void plan_judge(sqlite3 *h, const char *sql)
{
    char *text = gr_printf("EXPLAIN QUERY PLAN %s", sql);
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(h, text, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(s, 3);

        if (plan_walks(sql, step) || plan_sorts(step))
            fail_msg("%s\n%s", step, sql);
    }
    sqlite3_finalize(s);
    free(text);
}

/* A fresh database of this schema in a folder of its own. */
struct plans {
    char folder[32];
    struct db *db;
};

static inline void plans_open(struct plans *p, const struct db_schema *schema)
{
    char *path;

    snprintf(p->folder, sizeof p->folder, "/tmp/gr-plans-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    path = gr_printf("%s/plans.db", p->folder);
    p->db = db_open(path, schema);
    free(path);
}

/* All statements that were prepared, but for those that have one of these texts:
 * they walk or sort by intention. The list ends with NULL. */
static inline void plans_judge(struct plans *p, const char *const *allowed)
{
    const char *sql[256];
    size_t count = 0;

    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db_handle(p->db), s));)
        if (count < COUNT_OF(sql) && !plan_is_allowed(sqlite3_sql(s), allowed))
            sql[count++] = sqlite3_sql(s);
    assert_in_range(count, 20, COUNT_OF(sql) - 1);
    for (size_t i = 0; i < count; i++)
        plan_judge(db_handle(p->db), sql[i]);
}

static inline void plans_close(struct plans *p)
{
    char *command = gr_printf("rm -rf %s", p->folder);

    db_close(p->db);
    assert_int_equal(system(command), 0);
    free(command);
}

/* A process's: its schema, what prepares its statements, and those that may. */
struct plans_of {
    const struct db_schema *schema;
    void (*open)(struct db *db);
    const char *const *allowed;
};

static inline void every_statement_seeks_what_it_needs(void **state)
{
    const struct plans_of *of = *state;
    struct plans p;

    plans_open(&p, of->schema);
    of->open(p.db);
    plans_judge(&p, of->allowed);
    plans_close(&p);
}

static inline int plans_main(const struct db_schema *schema,
                             void (*open)(struct db *db),
                             const char *const *allowed)
{
    struct plans_of of = {schema, open, allowed};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_statement_seeks_what_it_needs, &of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
