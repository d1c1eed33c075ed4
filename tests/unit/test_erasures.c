/* Tests of the file of erased workspaces: it is remembered, hashed with its key, and a damaged one
 * ends the process; and of the overwriting of unused pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "db.h"
#include "erasures.h"
#include "plans.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/grapnel-erasures-XXXXXX";

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static char *path_of(const char *name)
{
    return gr_printf("%s/%s", folder, name);
}

static void an_erasure_is_remembered_without_its_name(void **state)
{
    struct erasures *e = erasures_open(folder), *other = erasures_open(folder);
    char hash[ERASURE_HASH_BYTES + 1], same[ERASURE_HASH_BYTES + 1], why[200];
    char line[300];
    struct stat st;
    int64_t at_ms;
    char *path = path_of("erasures");
    FILE *f;

    (void)state;
    assert_false(erasures_has(e, text("acme")));
    assert_int_equal(erasures_hash(e, "acme", hash, why), GR_OK);
    assert_int_equal(erasures_add(e, hash, 1234, why), GR_OK);
    assert_int_equal(erasures_add(e, hash, 5678, why), GR_OK); /* once */
    assert_int_equal(erasures_count(e), 1);
    assert_string_equal(erasures_at(e, 0, &at_ms), hash);
    assert_int_equal(at_ms, 1234);
    assert_true(erasures_has(e, text("acme")));
    assert_false(erasures_has(e, text("acm")));
    assert_false(erasures_has(other, text("acme")));
    erasures_refresh(other);
    assert_true(erasures_has(other, text("acme")));
    erasures_close(e);
    e = erasures_open(folder);
    assert_int_equal(erasures_hash(e, "acme", same, why), GR_OK);
    assert_string_equal(same, hash);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    f = fopen(path, "r");
    while (fgets(line, sizeof line, f))
        assert_null(strstr(line, "acme"));
    fclose(f);
    assert_false(erasures_again(e));
    erasures_ask_again(e);
    assert_true(erasures_again(other));
    erasures_again_done(e);
    assert_false(erasures_again(e));
    erasures_close(e);
    erasures_close(other);
    free(path);
}

/* How a process ends that opens the file. */
static int opening(void)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        erasures_close(erasures_open(folder));
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static void a_damaged_file_ends_the_process(void **state)
{
    static const char *const damaged[] = {"", "grapnel erasures 1 00\n",
                                          "grapnel erasures 2 ", "x"};
    char *path = path_of("erasures"), *kept = path_of("kept");
    FILE *f;

    (void)state;
    assert_int_equal(opening(), 0);
    assert_int_equal(rename(path, kept), 0);
    for (size_t i = 0; i < COUNT_OF(damaged); i++) {
        f = fopen(path, "w");
        fputs(damaged[i], f);
        fclose(f);
        assert_int_equal(opening(), EXIT_STORAGE);
    }
    assert_int_equal(rename(kept, path), 0);
    f = fopen(path, "a");
    fputs("12 zz\n", f);
    fclose(f);
    assert_int_equal(opening(), EXIT_STORAGE);
    free(path);
    free(kept);
}

/* Whether the bytes are in the file. */
static bool has(const char *path, const char *bytes)
{
    FILE *f = fopen(path, "r");
    bool found = false;
    char *all;
    long n;

    if (!f)
        return false;
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    all = gr_alloc((size_t)n + 1);
    assert_int_equal(fread(all, 1, (size_t)n, f), n);
    found = memmem(all, (size_t)n, bytes, strlen(bytes));
    fclose(f);
    free(all);
    return found;
}

static void turn(struct db *db)
{
    assert_int_equal(db_commit(db), GR_OK);
    db_tidy(db);
    db_begin(db);
}

static void deleted_rows_leave_no_bytes(void **state)
{
    static const char *const steps[] = {
        "CREATE TABLE t(n INTEGER PRIMARY KEY, v BLOB)"};
    static const struct db_schema schema = {.steps = steps, .count = 1};
    char *path = path_of("t.db"), *wal = path_of("t.db-wal"), value[9000];
    struct db *db = db_open(path, &schema);
    stmt *add = db_prepare(db, "INSERT INTO t(v) VALUES (?)");
    stmt *drop = db_prepare(db, "DELETE FROM t WHERE n % 2 = ?");

    (void)state;
    memset(value, 'x', sizeof value);
    memcpy(value + 100, "the-mark", 8);
    memcpy(value + 8000, "the-mark", 8);
    db_begin(db);
    for (int i = 0; i < 500; i++) {
        bind_blob(add, 1, (struct bytes){value, (size_t)(i * 18 % 9000)});
        db_run(db, add);
    }
    turn(db);
    bind_i64(drop, 1, 0); /* deleted before the erasure */
    db_run(db, drop);
    turn(db);
    db_erasing(db);
    bind_i64(drop, 1, 1);
    db_run(db, drop);
    turn(db);
    assert_true(has(path, "the-mark") || has(wal, "the-mark"));
    for (int i = 0; i < 1000 && !db_scrub(db); i++)
        turn(db);
    assert_int_equal(db_commit(db), GR_OK);
    assert_false(has(path, "the-mark"));
    assert_false(has(wal, "the-mark"));
    db_close(db);
    free(path);
    free(wal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_erasure_is_remembered_without_its_name),
        cmocka_unit_test(a_damaged_file_ends_the_process),
        cmocka_unit_test(deleted_rows_leave_no_bytes),
    };

    if (!mkdtemp(folder))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
