/* operate: backup of all processes. */
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ask each process, with the args that `args_for` makes (NULL: none). */
typedef json_t *args_fn(const char *process, const char *arg);

static json_t *ask_each(struct ctl *c, const char *what, int timeout_ms,
                        args_fn *args_for, const char *arg)
{
    json_t *out = json_array();
    struct processes p;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply = ask(c, p.names[i], what,
                            args_for ? args_for(p.names[i], arg) : NULL,
                            timeout_ms, &unreachable, why);
        json_t *row = json_pack("{s:s, s:b, s:b, s:o}", "process", p.names[i],
                                "ok", reply != NULL, "reached", !unreachable,
                                "error",
                                reply ? json_null() : json_text_of(why));

        json_object_update(row, reply);
        json_array_append_new(out, row);
        json_decref(reply);
    }
    processes_fini(&p);
    return out;
}

/* The exit code: a process that is away weighs more than one that refuses. */
static int judge(struct ctl *c, const json_t *rows)
{
    json_t *row;
    size_t i;
    int code = complain_all_away(c, rows, "reached");

    json_array_foreach(
        rows, i, row) if (!json_is_true(json_object_get(row, "ok")) && !code)
        code = EXIT_REFUSED;
    return code;
}

static void print_rows(struct ctl *c, const json_t *rows, const char *done)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        bool ok = json_is_true(json_object_get(row, "ok"));
        const char *path = text_of(row, "path");
        char bytes[32];

        printf("%-14s %s%s%s", text_of(row, "process"),
               colour_on(ok ? GREEN : RED, c->colour), ok ? done : "failed",
               colour_off(ok ? GREEN : RED, c->colour));
        if (*path)
            printf(
                "  %s, %s", path,
                human_bytes(json_integer_value(json_object_get(row, "bytes")),
                            bytes));
        printf("%s%s\n", ok ? "" : ": ", ok ? "" : text_of(row, "error"));
    }
}

static int report(struct ctl *c, json_t *rows, const char *done)
{
    int code;

    if (c->json)
        print_json(json_incref(rows));
    else
        print_rows(c, rows, done);
    fflush(stdout);
    code = judge(c, rows);
    json_decref(rows);
    return code;
}

/* ---- backup ---- */

static json_t *backup_args(const char *process, const char *dir)
{
    char *path = gr_printf("%s/%s.db", dir, process);
    json_t *args = json_pack("{s:s}", "path", path);

    free(path);
    return args;
}

/* Copies of two days in one folder would be taken for one backup. */
static bool holds_databases(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    bool holds = false;

    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        holds |= n > 3 && strcmp(e->d_name + n - 3, ".db") == 0;
    }
    if (dir)
        closedir(dir);
    return holds;
}

/* The folder's full name, for the caller to free; NULL after a sentence. The
 * processes write the copies, so one that root makes belongs to their user. */
static char *make_folder(const char *dir, const char *run_dir)
{
    struct stat st;
    char *path;
    bool made = mkdir(dir, 0700) == 0;

    if ((!made && errno != EEXIST) ||
        (made && geteuid() == 0 && stat(run_dir, &st) == 0 &&
         chown(dir, st.st_uid, st.st_gid) != 0)) {
        complain(EXIT_REFUSED, "cannot create %s: %s", dir, strerror(errno));
        return NULL;
    }
    path = realpath(dir, NULL);
    if (!path || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        complain(EXIT_REFUSED, "%s is not a folder", dir);
    } else if (holds_databases(path)) {
        complain(
            EXIT_REFUSED,
            "%s already contains databases: use a new folder for each backup",
            path);
    } else {
        return path;
    }
    free(path);
    return NULL;
}

/* Senders before receivers: then a restored receiver may be ahead of its
 * sender, which the link sorts out without a loss, but never behind what the
 * sender has forgotten. */
int run_backup(struct ctl *c)
{
    char *dir;
    json_t *rows;

    need_run_dir(c);
    dir = make_folder(c->parsed.args[0], c->run_dir);
    if (!dir)
        return EXIT_REFUSED;
    rows = ask_each(c, "backup", ASK_LONG_MS, backup_args, dir);
    free(dir);
    return report(c, rows, "copied");
}
