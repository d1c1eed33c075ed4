/* version: `grapnel version`, and the warning of mixed versions that `status` prints, too. */
#include "version.h"
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

enum { VERSION_ERRORS_BYTES = 64 * 1024 };

static bool is_other(const json_t *row)
{
    const char *version = json_string_value(json_object_get(row, "version"));

    return version && strcmp(version, GRAPNEL_VERSION) != 0;
}

static int count_others(const json_t *rows)
{
    json_t *row;
    size_t i;
    int n = 0;

    json_array_foreach(rows, i, row) n += is_other(row);
    return n;
}

bool version_is_mixed(const json_t *rows)
{
    return count_others(rows) > 0;
}

void version_print_mixed(struct ctl *c, const json_t *rows)
{
    int others = count_others(rows);
    const char *comma = "";
    json_t *row;
    size_t i;

    if (!others)
        return;
    printf("%sMixed versions: this command is %s, but ",
           colour_on(YELLOW, c->colour), GRAPNEL_VERSION);
    json_array_foreach(rows, i, row)
    {
        if (!is_other(row))
            continue;
        printf("%s%s runs %s", comma, text_of(row, "process"),
               text_of(row, "version"));
        comma = ", ";
    }
    printf(". Restart %s with the installed version.\nUntil all run the same "
           "version, messages between them may wait; nothing is lost.%s\n",
           others == 1 ? "it" : "them", colour_off(YELLOW, c->colour));
}

/* ---- grapnel version ---- */

/* [{"process", "version", "pid", "started_at", "error"}, …] */
static json_t *ask_them(struct ctl *c)
{
    static const char *const keys[] = {"version", "pid", "started_at"};
    json_t *rows = json_array();
    struct question *all;
    struct processes p;

    processes_find(c, &p);
    all = gr_alloc((p.count + 1) * sizeof *all);
    for (size_t i = 0; i < p.count; i++)
        all[i] = (struct question){.process = p.names[i], .what = "ping"};
    ask_all(c, all, p.count, ASK_STATUS_MS);
    for (size_t i = 0; i < p.count; i++) {
        json_t *row = json_pack("{s:s, s:n, s:n, s:n, s:n}", "process",
                                p.names[i], "version", "pid", "started_at",
                                "error");

        for (size_t k = 0; k < COUNT_OF(keys); k++)
            if (json_object_get(all[i].reply, keys[k]))
                json_object_set(row, keys[k],
                                json_object_get(all[i].reply, keys[k]));
        if (!all[i].reply)
            json_object_set_new(row, "error", json_text_of(all[i].why));
        json_array_append_new(rows, row);
        json_decref(all[i].reply);
    }
    free(all);
    processes_fini(&p);
    return rows;
}

int run_version(struct ctl *c)
{
    struct buf errors;
    json_t *rows, *row;
    size_t i;

    buf_init(&errors, VERSION_ERRORS_BYTES);
    rows = find_run_dir(c, &errors) ? ask_them(c) : json_array();
    buf_fini(&errors);
    if (c->json)
        print_json(json_pack(
            "{s:s, s:o, s:b, s:O}", "version", GRAPNEL_VERSION, "run_dir",
            c->run_dir ? json_text_of(c->run_dir) : json_null(), "mixed",
            version_is_mixed(rows), "processes", rows));
    else
        printf("grapnel %s\n", GRAPNEL_VERSION);
    if (!c->json && !c->run_dir)
        printf("The processes are not shown: run_dir is unknown; set it with "
               "--run-dir DIR or $GRAPNEL_RUN_DIR.\n");
    for (i = 0; !c->json && (row = json_array_get(rows, i)); i++) {
        const char *version = text_of(row, "version");

        printf("%s%-14s %s%s\n", colour_on(YELLOW, c->colour && is_other(row)),
               text_of(row, "process"),
               *version ? version : text_of(row, "error"),
               colour_off(YELLOW, c->colour && is_other(row)));
    }
    if (!c->json)
        version_print_mixed(c, rows);
    json_decref(rows);
    return 0;
}
