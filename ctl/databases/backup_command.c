/* backup_command: `grapnel backup`: has every process copy its database into one folder. */
#include "ask.h"
#include "folder.h"
#include "json_text.h"
#include "table.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the folder has databases: `restore` would take copies of two days for one backup. */
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

/* Makes the folder. Returns its full name, the caller's; NULL: the reason was printed. The
 * processes write the copies, so a folder that root makes gets their user as its owner. */
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
    if (made) /* it outlives a power cut, as the copies in it do */
        (void)sync_folder_of(dir);
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

/* The row of one process: what it replied, or why it did not. */
static json_t *copy_one(struct ctl *c, const char *process, const char *dir)
{
    char *path = gr_printf("%s/%s.db", dir, process);
    char *part = gr_printf("%s.part", path), why[200];
    bool unreachable;
    json_t *reply = ask_long(c, process, "backup",
                             json_pack("{s:s}", "path", path), part,
                             &unreachable, why);
    json_t *row = json_pack("{s:s, s:b, s:b, s:o}", "process", process, "ok",
                            reply != NULL, "reached", !unreachable, "error",
                            reply ? json_null() : json_text_of(why));

    json_object_update(row, reply);
    json_decref(reply);
    free(part);
    free(path);
    return row;
}

static void print_row(const struct ctl *c, const json_t *row)
{
    bool ok = json_is_true(json_object_get(row, "ok"));
    char bytes[32];

    printf("%-14s %s%s%s", text_of(row, "process"),
           colour_on(ok ? GREEN : RED, c->colour), ok ? "copied" : "failed",
           colour_off(ok ? GREEN : RED, c->colour));
    if (*text_of(row, "path"))
        printf("  %s, %s", text_of(row, "path"),
               human_bytes(integer_of(row, "bytes"), bytes));
    printf("%s%s\n", ok ? "" : ": ", ok ? "" : text_of(row, "error"));
}

/* Copies senders before receivers (the order of processes_find()): a restored receiver may then
 * be ahead of its sender, which the link repairs without a loss, but never behind the rows that
 * the sender has deleted. */
int run_backup(struct ctl *c)
{
    json_t *rows, *row;
    struct processes p;
    int code, refused = 0;
    char *dir;
    size_t i;

    need_run_dir(c);
    dir = make_folder(c->parsed.args[0], c->run_dir);
    if (!dir)
        return EXIT_REFUSED;
    rows = json_array();
    processes_find(c, &p);
    for (i = 0; i < p.count; i++) {
        char *host = process_host(c->run_dir, p.names[i]);

        if (host) { /* it would write to its own disk */
            complain(0, "%s is on another host, %s: run `grapnel backup` there",
                     p.names[i], host);
        } else {
            row = copy_one(c, p.names[i], dir);
            if (!json_is_true(json_object_get(row, "ok")))
                refused = EXIT_REFUSED;
            json_array_append_new(rows, row);
        }
        free(host);
    }
    processes_fini(&p);
    free(dir);
    if (c->json)
        print_json(json_incref(rows));
    else
        json_array_foreach(rows, i, row) print_row(c, row);
    fflush(stdout);
    code = complain_all_away(c, rows, "reached");
    json_decref(rows);
    return code ? code : refused;
}
