/* list_commands: rejects and audit rows over HTTP: lists that are made of the replies of several
 * processes. */
#include "api_request.h"
#include "commands.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS_USUAL = 100 };

static void ask_kind(struct api_request *r, const char *kind,
                     const struct command_spec *command)
{
    struct processes p;

    api_processes(r, kind, &p);
    for (size_t i = 0; i < p.count; i++)
        api_ask(r, p.names[i], command, json_incref(r->args));
    processes_fini(&p);
}

/* Newest first, by "at", RFC 3339; of equal ones, in the order of processes. */
struct dated_row {
    json_t *row;
    const char *at;
    size_t n;
};

static int newest_first(const void *a, const void *b)
{
    const struct dated_row *x = a, *y = b;
    int times = strcmp(y->at, x->at);

    return times ? times : x->n < y->n ? -1 : 1;
}

/* The rows of all replies, the caller's. */
static struct dated_row *rows_of(const struct api_request *r, const char *name,
                                 size_t *count)
{
    struct dated_row *all = NULL;
    json_t *row;
    size_t i;

    *count = 0;
    for (size_t k = 0; k < r->asked_count; k++) {
        json_t *rows = json_object_get(api_reply(r, k), name);

        all = gr_realloc(all,
                         (*count + json_array_size(rows) + 1) * sizeof *all);
        json_array_foreach(rows, i, row)
        {
            const char *at = json_string_value(json_object_get(row, "at"));

            all[*count] = (struct dated_row){row, at ? at : "", *count};
            ++*count;
        }
    }
    if (*count)
        qsort(all, *count, sizeof *all, newest_first);
    return all;
}

static bool all_answered(struct api_request *r)
{
    for (size_t i = 0; i < r->asked_count; i++)
        if (!api_answered(r, i))
            return false;
    return true;
}

static size_t limit_of(const struct api_request *r)
{
    json_int_t limit = json_integer_value(json_object_get(r->args, "limit"));

    return limit > 0 ? (size_t)limit : ROWS_USUAL;
}

void reject_list(struct api_request *r)
{
    struct dated_row *rows;
    json_t *out;
    size_t count;

    if (r->stage++ == 0) {
        ask_kind(r, "ingress", &command_rejects);
        return;
    }
    if (!all_answered(r))
        return;
    out = json_array();
    rows = rows_of(r, "rejects", &count);
    for (size_t i = 0; i < count && i < limit_of(r); i++)
        json_array_append(out, rows[i].row);
    free(rows);
    api_respond(r, json_pack("{s:o}", "rejects", out));
}

void reject_read(struct api_request *r)
{
    if (r->stage++ == 0) {
        ask_kind(r, "ingress", r->command);
        return;
    }
    for (size_t i = 0; i < r->asked_count; i++)
        if (api_reply(r, i)) {
            api_respond(r, json_incref(api_reply(r, i)));
            return;
        }
    for (size_t i = 0; i < r->asked_count; i++)
        if (strcmp(r->asked[i]->code, "not_found") != 0 && !api_answered(r, i))
            return; /* that one may have it */
    api_answered(r, 0);
}

/* ---- audit ---- */

/* The cursor has the `before` of each process that has more rows: {"dlqd": "12"}. */
static void ask_audit(struct api_request *r)
{
    const json_t *cursor = json_object_get(r->args, "before");
    struct processes p;

    processes_in(r->api->daemon->settings->run_dir, &p);
    for (size_t i = 0; i < p.count; i++) {
        const json_t *before = json_object_get(cursor, p.names[i]);
        json_t *args = json_copy(r->args);

        json_object_del(args, "before");
        if (json_is_string(before))
            json_object_set(args, "before", (json_t *)(uintptr_t)before);
        if (!cursor || before)
            api_ask(r, p.names[i], &command_audit, json_incref(args));
        json_decref(args);
    }
    processes_fini(&p);
}

/* Where the next page begins at one process: after its last row of this page. NULL: it has no
 * further rows. */
static json_t *audit_next(const struct api_request *r, size_t i,
                          const char *last_n, size_t taken)
{
    json_t *reply = api_reply(r, i);
    const json_t *cursor = json_object_get(r->args, "before");

    if (taken == json_array_size(json_object_get(reply, "audit")))
        return json_incref(json_object_get(reply, "next"));
    if (last_n)
        return json_string(last_n);
    return cursor ? json_incref(json_object_get(cursor, r->asked[i]->name))
                  : json_true(); /* from its newest row on */
}

static json_t *audit_page(struct api_request *r)
{
    json_t *out = json_array(), *next = json_object();
    struct dated_row *rows;
    size_t count, used;

    rows = rows_of(r, "audit", &count);
    used = count < limit_of(r) ? count : limit_of(r);
    for (size_t i = 0; i < used; i++)
        json_array_append(out, rows[i].row);
    for (size_t k = 0; k < r->asked_count; k++) {
        const char *last = NULL;
        size_t taken = 0;
        json_t *from;

        for (size_t i = 0; i < used; i++) {
            const char *process = json_string_value(
                json_object_get(rows[i].row, "process"));

            if (process && strcmp(process, r->asked[k]->name) == 0) {
                last = json_string_value(json_object_get(rows[i].row, "n"));
                taken++;
            }
        }
        from = audit_next(r, k, last, taken);
        if (from && !json_is_null(from))
            json_object_set(next, r->asked[k]->name, from);
        json_decref(from);
    }
    free(rows);
    if (!json_object_size(next)) {
        json_decref(next);
        next = json_null();
    }
    return json_pack("{s:o,s:o}", "audit", out, "next", next);
}

void audit_list(struct api_request *r)
{
    const json_t *cursor = json_object_get(r->args, "before");

    if (cursor && !json_is_object(cursor))
        api_fail(r, WEB_INVALID_ARGUMENT, "cursor",
                 "cursor: write the next_cursor of the page before");
    else if (r->stage++ == 0)
        ask_audit(r);
    if (r->stage == 1 && !r->responded && !r->asked_count)
        api_respond(r, json_pack("{s:[],s:n}", "audit", "next"));
    else if (r->stage == 2 && all_answered(r))
        api_respond(r, audit_page(r));
}
