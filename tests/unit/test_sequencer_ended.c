/* Tests of the file of revoked tokens and deleted endpoints: lines are found after a restart, old and
 * incomplete ones are dropped, and damage ends the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "ended.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/grapnel-ended-XXXXXX", *path;
static char why[200];

static void write_text(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void a_line_is_found_again(void **state)
{
    struct ended *e = ended_open(folder, 0);
    char id[32];

    (void)state;
    assert_int_equal(ended_count(e), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "ep_%d", i * 7919 % 1000);
        assert_int_equal(ended_add(e, id, ENDED_MAX, 1000 + i, why), GR_OK);
    }
    assert_int_equal(ended_add(e, "ep_0", ENDED_MAX, 9, why), GR_OK); /* once */
    ended_close(e);
    e = ended_open(folder, 0);
    assert_int_equal(ended_count(e), 300);
    for (int i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "ep_%d", i * 7919 % 1000);
        assert_int_equal(ended_at(e, id), 1000 + i);
    }
    assert_int_equal(ended_at(e, "ep_"), 0);
    assert_int_equal(ended_at(e, "tok_1"), 0);
    ended_close(e);
}

static void old_and_incomplete_lines_are_dropped(void **state)
{
    struct ended *e;

    (void)state;
    write_text("10 tok_a\n20 tok_b\n30 tok_c");
    e = ended_open(folder, 15);
    assert_int_equal(ended_count(e), 1);
    assert_int_equal(ended_at(e, "tok_b"), 20);
    assert_int_equal(ended_add(e, "tok_c", ENDED_MAX, 40, why), GR_OK);
    ended_close(e);
    e = ended_open(folder, 0);
    assert_int_equal(ended_count(e), 2);
    assert_int_equal(ended_at(e, "tok_c"), 40);
    ended_close(e);
}

/* How a process ends that opens the file. */
static int opening(void)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        ended_close(ended_open(folder, 0));
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static void damage_ends_the_process(void **state)
{
    static const char *const damaged[] = {
        "x\n",
        "12\n",
        "12 \n",
        "0 tok_a\n",
        "\n",
        " tok_a\n",
        "12 "
        "tok_0123456789012345678901234567890123456789012345678901234567890123"
        "\n",
        "12 "
        "tok_0123456789012345678901234567890123456789012345678901234567890123"
        "012345678901234567890123456789012345678901234567890123456789012345678"
        "012345678901234567890123456789\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(damaged); i++) {
        print_message("%s", damaged[i]);
        write_text(damaged[i]);
        assert_int_equal(opening(), EXIT_STORAGE);
    }
    write_text("");
    assert_int_equal(opening(), 0);
}

static void what_cannot_be_written_is_refused(void **state)
{
    struct ended *e;

    (void)state;
    unlink(path);
    e = ended_open(folder, 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(ended_add(e, "tok_a", ENDED_MAX, 1, why), GR_REFUSE);
    assert_non_null(strstr(why, "cannot be written"));
    assert_int_equal(ended_at(e, "tok_a"), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(ended_add(e, "tok_a", ENDED_MAX, 1, why), GR_OK);
    assert_int_equal(ended_at(e, "tok_a"), 1);
    assert_int_equal(ended_add(e, "ep_a", 1, 2, why), GR_REFUSE);
    assert_non_null(strstr(why, "has 1 lines: no more are possible"));
    ended_close(e);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    path = gr_printf("%s/ended", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_found_again),
        cmocka_unit_test(old_and_incomplete_lines_are_dropped),
        cmocka_unit_test(damage_ends_the_process),
        cmocka_unit_test(what_cannot_be_written_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
