/* How the sequencer's statements find their rows: with ten million deliveries
 * waiting, one that looks at more than it needs is one too many. */
#include "store.h"
#include "store_lanes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Those that walk a table by intention: small ones at a start, and searches,
 * which are bounded or asked for. */
static const char *const walks[] = {"FROM endpoints", "FROM deliverers",
                                    "FROM events WHERE (?1 IS NULL"};

static bool may_walk(const char *sql)
{
    for (size_t i = 0; i < COUNT_OF(walks); i++)
        if (strstr(sql, walks[i]))
            return true;
    return false;
}

static void judge(const char *sql, const char *step)
{
    if (strncmp(step, "SCAN ", 5) == 0 && !strstr(step, "CONSTANT ROW") &&
        !(strstr(step, " INDEX ") && strstr(sql, "LIMIT")) &&
        !strstr(step, "(subquery") && !may_walk(sql))
        fail_msg("%s\n%s", step, sql);
    if (strstr(step, "deliveries_lane") &&
        !strstr(step, strstr(sql, "lane > ?2") ? "lane>?" : "lane=?"))
        fail_msg("%s\n%s", step, sql);
    /* A count of what waits touches no rows. */
    if (strstr(sql, "count(*)") && strstr(step, "deliveries USING INDEX"))
        fail_msg("%s\n%s", step, sql);
    if (strstr(step, "TEMP B-TREE FOR ORDER") &&
        strstr(sql, "FROM deliveries INDEXED"))
        fail_msg("%s\n%s", step, sql);
}

static void explain(sqlite3 *h, const char *sql)
{
    char *text = gr_printf("EXPLAIN QUERY PLAN %s", sql);
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(h, text, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        judge(sql, (const char *)sqlite3_column_text(s, 3));
    sqlite3_finalize(s);
    free(text);
}

static void every_statement_seeks_what_it_needs(void **state)
{
    char folder[] = "/tmp/gr-store-XXXXXX", *path;
    struct store_lanes *lanes;
    struct store *store;
    const char *sql[200];
    int count = 0;
    struct db *db;

    (void)state;
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/sequencer.db", folder);
    db = db_open(path, &sequencer_schema);
    store = store_open(db);
    lanes = store_lanes_open(db);
    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db_handle(db), s));)
        if (strstr(sqlite3_sql(s), "SELECT") && count < (int)COUNT_OF(sql))
            sql[count++] = sqlite3_sql(s);
    assert_in_range(count, 30, COUNT_OF(sql) - 1);
    for (int i = 0; i < count; i++)
        explain(db_handle(db), sql[i]);
    store_lanes_close(lanes);
    store_close(store);
    db_close(db);
    unlink(path);
    free(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_seeks_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
