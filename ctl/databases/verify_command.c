/* verify_command: `grapnel verify`: checks the databases for damage. Each process checks its own;
 * the file of a process that is down, or in another folder, is checked here. */
#include "ask.h"
#include "db_file.h"
#include "db_version.h"
#include "json_text.h"
#include "stores.h"
#include "sums.h"
#include "table.h"
#include "verifier.h"
#include "wal_damage.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERIFY_MS = 24 * 3600 * 1000 }; /* a large file, at low priority */

/* Whether the command line names this process, or no process. */
static bool is_selected(const struct ctl *c, const char *name)
{
    for (int i = 0; i < c->parsed.arg_count; i++)
        if (strcmp(c->parsed.args[i], name) == 0)
            return true;
    return c->parsed.arg_count == 0;
}

static json_t *failed(const char *name, const char *error)
{
    return json_pack("{s:s, s:b, s:o}", "process", name, "ok", false, "error",
                     json_text_of(error));
}

static json_t *of_file(const char *path, const char *name)
{
    const struct store_kind *kind = store_kind_of(name);
    char why[DB_FILE_WHY_BYTES];
    struct wal_damage wal;
    json_t *row, *found;
    bool wal_damaged;
    int version;
    char *text;

    if (!db_file_is_plain(path, why)) {
        text = gr_printf("%s %s", path, why);
        row = failed(name, text);
        free(text);
        return row;
    }
    version = db_version_of(path);
    if (kind && version > kind->version) {
        text = gr_printf("%s has schema version %d, this grapnel %s knows "
                         "versions up to %d: verify it with the version that "
                         "wrote it",
                         path, version, GRAPNEL_VERSION, kind->version);
        row = failed(name, text);
        free(text);
        return row;
    }
    wal_damaged = wal_damage_find(path, &wal);
    row = json_pack("{s:s, s:s}", "process", name, "by", "grapnel");
    found = verify_file(path, sums_all, sums_count, NULL);
    json_object_update(row, found);
    json_decref(found);
    if (wal_damaged) {
        text = gr_printf(
            "%s at frame %lld: commits lost: %lld",
            wal.certain ? "the write-ahead log is damaged"
                        : "the last commit in the write-ahead log is damaged, "
                          "or was incomplete when the power failed,",
            (long long)wal.frame, (long long)wal.commits);
        json_array_append_new(
            json_object_get(row, "damaged"),
            json_pack("{s:s, s:n, s:s}", "table", "-wal", "id", "what", text));
        json_object_set_new(row, "ok", json_false());
        free(text);
    }
    return row;
}

/* Has each process check its database; checks the file of a process that is down here. */
static json_t *of_all(struct ctl *c)
{
    static const char *const keys[] = {"state_dir", NULL};
    json_t *rows = json_array();
    struct processes p;

    need_settings(
        c, keys,
        "verify needs only `state_dir` of the configuration, the folder of "
        "the databases of processes that are down");
    need_run_dir(c);
    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        char *path = gr_printf("%s/%s.db", c->settings->state_dir, p.names[i]);
        json_t *row = NULL, *found;
        bool unreachable;
        char why[200];

        if (!is_selected(c, p.names[i])) {
            ;
        } else if (process_listens(c, p.names[i], why)) {
            found = ask(c, p.names[i], "verify", NULL, VERIFY_MS, &unreachable,
                        why);
            row = found ? json_pack("{s:s, s:s}", "process", p.names[i], "by",
                                    p.names[i])
                        : failed(p.names[i], why);
            json_object_update(row, found);
            json_decref(found);
        } else {
            row = access(path, R_OK) == 0 ? of_file(path, p.names[i])
                                          : failed(p.names[i], why);
        }
        if (row)
            json_array_append_new(rows, row);
        free(path);
    }
    processes_fini(&p);
    return rows;
}

static json_t *of_folder(struct ctl *c, const char *dir)
{
    json_t *rows = json_array();
    struct dirent **all = NULL;
    int count = scandir(dir, &all, NULL, alphasort);

    if (count < 0)
        complain(EXIT_REFUSED, "%s: %s", dir, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *file = all[i]->d_name;
        size_t n = strlen(file);
        char *name = n > 3 && strcmp(file + n - 3, ".db") == 0
                         ? gr_strndup(file, n - 3)
                         : NULL;

        if (name && is_selected(c, name)) {
            char *path = gr_printf("%s/%s", dir, file);

            json_array_append_new(rows, of_file(path, name));
            free(path);
        }
        free(name);
        free(all[i]);
    }
    free(all);
    return rows;
}

static void print_row(struct ctl *c, const json_t *row)
{
    bool ok = json_is_true(json_object_get(row, "ok"));
    const char *error = text_of(row, "error");
    json_t *one, *skipped = json_object_get(row, "skipped");
    size_t i;

    printf("%-14s %s%s%s", text_of(row, "process"),
           colour_on(ok ? GREEN : RED, c->colour),
           ok       ? "ok"
           : *error ? "failed"
                    : "DAMAGED",
           colour_off(ok ? GREEN : RED, c->colour));
    if (*error)
        printf(": %s\n", error);
    else
        printf("  %lld tables, %lld rows with a checksum, %s\n",
               (long long)integer_of(row, "tables"),
               (long long)integer_of(row, "rows"), text_of(row, "file"));
    json_array_foreach(json_object_get(row, "damaged"), i, one)
        printf("  %s %s: %s\n", text_of(one, "table"), text_of(one, "id"),
               text_of(one, "what"));
    json_array_foreach(skipped, i, one) printf(
        "  %s: pages were not checked, because too much was being written\n",
        json_string_value(one));
}

static bool has_row(const json_t *rows, const char *process)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(text_of(json_array_get(rows, i), "process"), process) == 0)
            return true;
    return false;
}

/* Names without a row. Returns the exit code. */
static int complain_missing(const struct ctl *c, const json_t *rows,
                            const char *dir)
{
    int code = 0;

    for (int i = 0; i < c->parsed.arg_count; i++) {
        const char *name = c->parsed.args[i];

        if (has_row(rows, name))
            continue;
        code = dir ? complain(EXIT_REFUSED, "there is no %s.db in %s", name,
                              dir)
                   : complain(EXIT_REFUSED,
                              "%s is not among the processes that `grapnel "
                              "status` shows; --offline DIR checks the files "
                              "of a folder",
                              name);
    }
    return code;
}

int run_verify(struct ctl *c)
{
    const char *dir = parsed_value(&c->parsed, "--offline");
    json_t *rows, *row;
    size_t i;
    int code;

    for (int k = 0; !dir && k < c->parsed.arg_count; k++)
        if (!is_process_name(c->parsed.args[k]))
            return EXIT_USAGE;
    rows = dir ? of_folder(c, dir) : of_all(c);
    code = complain_missing(c, rows, dir);
    if (json_array_size(rows) == 0 && !code)
        code = complain(EXIT_REFUSED, "there is no database to verify%s%s",
                        dir ? " in " : "", dir ? dir : "");
    json_array_foreach(rows, i,
                       row) if (!json_is_true(json_object_get(row, "ok")))
        code = EXIT_REFUSED;
    if (c->json)
        print_json(json_incref(rows));
    else
        json_array_foreach(rows, i, row) print_row(c, row);
    json_decref(rows);
    return code;
}
