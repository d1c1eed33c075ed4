/* Verification looks at each row, also when a writer sends it away to begin the WAL anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "rc.h"
#include "verifier.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 2000 };

static struct verify_ends ends;
static int calls;

/* Called for each row that is verified; the writer comes once, in the first group. */
static void on_row(sqlite3_context *context, int n, sqlite3_value **values)
{
    (void)n;
    if (++calls == 10)
        atomic_store(&ends.leave, true);
    sqlite3_result_value(context, values[0]);
}

static int register_on_row(sqlite3 *h, char **why, const void *api)
{
    (void)why, (void)api;
    return sqlite3_create_function_v2(h, "on_row", 1, SQLITE_UTF8, NULL, on_row,
                                      NULL, NULL, NULL);
}

static void make(const char *path)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    db_sums_register(h);
    assert_int_equal(
        sqlite3_exec(h,
                     "CREATE TABLE t (id TEXT, sum INTEGER);"
                     "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                     "FROM c WHERE i < 2000) INSERT INTO t SELECT 'e' || i, "
                     "content_sum('e' || i) FROM c;"
                     "UPDATE t SET sum = sum + 1 WHERE id = 'e2000'",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(h);
}

static void a_writer_does_not_hide_a_damaged_row(void **state)
{
    static const struct db_summed sums[] = {{"t", "id", "on_row(id)"}};
    char folder[] = "/tmp/verifier-XXXXXX", path[64];
    json_t *result, *one;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.db", folder);
    make(path);
    sqlite3_auto_extension((void (*)(void))register_on_row);
    result = verify_file(path, sums, COUNT_OF(sums), &ends);
    sqlite3_cancel_auto_extension((void (*)(void))register_on_row);
    assert_int_equal(json_integer_value(json_object_get(result, "rows")), ROWS);
    assert_int_equal(
        json_integer_value(json_object_get(result, "damaged_count")), 1);
    one = json_array_get(json_object_get(result, "damaged"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "id")), "e2000");
    assert_int_equal(json_array_size(json_object_get(result, "skipped")), 0);
    json_decref(result);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_does_not_hide_a_damaged_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
