/* audit_report: adds up the pages of each process, and finds out what a missing published hash means. */
#include "audit_report.h"
#include "alloc.h"
#include "json_text.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HASH_DIGITS = 64,
    HEADS_MAX = 20,
    FINDINGS_MAX = 1000, /* of one process */
};

/* A published hash: PROCESS:ROW:HASH, or the hash alone. */
struct published {
    char *text, *process; /* process NULL: any */
    const char *hash;
    int64_t n;
    bool found;
};

struct audit_report {
    struct published heads[HEADS_MAX];
    size_t head_count;
    /* By the name of the process: its row of the result. While it has further pages, `next` is in
     * the row. */
    json_t *rows;
};

struct audit_report *audit_report_new(void)
{
    struct audit_report *r = gr_alloc(sizeof *r);

    r->rows = json_object();
    return r;
}

void audit_report_free(struct audit_report *r)
{
    for (size_t i = 0; i < r->head_count; i++) {
        free(r->heads[i].text);
        free(r->heads[i].process);
    }
    json_decref(r->rows);
    free(r);
}

/* ---- published hashes ---- */

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_DIGITS &&
           strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

/* false: it is not one. Takes `text` over. */
static bool add_head(struct audit_report *r, char *text)
{
    struct published *p = &r->heads[r->head_count++];
    char *colon = strrchr(text, ':'), *end;

    *p = (struct published){.text = text, .hash = colon ? colon + 1 : text};
    if (!is_hash(p->hash))
        return false;
    if (!colon)
        return true;
    p->process = gr_strndup(text, (size_t)(colon - text));
    colon = strrchr(p->process, ':');
    if (!colon || colon == p->process || !colon[1])
        return false;
    *colon = 0;
    p->n = strtoll(colon + 1, &end, 10);
    return !*end && p->n > 0;
}

bool audit_report_heads(struct audit_report *r, const char *list, char why[300])
{
    static const char between[] = ", \t\r\n";

    while (list && *(list += strspn(list, between))) {
        size_t n = strcspn(list, between);

        if (r->head_count == HEADS_MAX) {
            snprintf(why, 300, "at most %d hashes", HEADS_MAX);
            return false;
        }
        if (!add_head(r, gr_strndup(list, n))) {
            snprintf(why, 300,
                     "\"%.*s\" is not a published hash: write "
                     "PROCESS:ROW:HASH as in the log, or the hash alone",
                     (int)(n < 200 ? n : 200), list);
            return false;
        }
        list += n;
    }
    return true;
}

static bool is_of(const struct published *p, const char *process)
{
    return !p->process || strcmp(p->process, process) == 0;
}

/* ---- one process ---- */

json_t *audit_report_ask(const struct audit_report *r, const char *process)
{
    json_t *row = json_object_get(r->rows, process), *heads;
    json_t *next = row ? json_object_get(row, "next") : NULL;

    if (row && !next)
        return NULL;
    heads = json_array();
    for (size_t i = 0; i < r->head_count; i++)
        if (is_of(&r->heads[i], process))
            json_array_append_new(heads, json_string(r->heads[i].hash));
    return json_pack("{s:o, s:o}", "after",
                     next ? json_incref(next) : json_integer(0), "heads",
                     heads);
}

static void note_found(struct audit_report *r, const char *process,
                       const json_t *found)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)found, i, one)
    {
        const char *hash = json_string_value(json_object_get(one, "hash"));

        for (size_t k = 0; k < r->head_count; k++)
            if (hash && is_of(&r->heads[k], process) &&
                strcmp(hash, r->heads[k].hash) == 0)
                r->heads[k].found = true;
    }
}

static json_int_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void add_page(json_t *row, json_t *reply)
{
    static const char *const of_page[] = {"last", "begins_after", "begins_at",
                                          "unchained", "key"};
    json_t *findings = json_object_get(row, "findings"), *one, *next;
    json_int_t left_off = number_of(row, "findings_more") +
                          number_of(reply, "findings_more");
    size_t i;

    for (i = 0; i < COUNT_OF(of_page); i++)
        json_object_set(row, of_page[i], json_object_get(reply, of_page[i]));
    json_array_foreach(json_object_get(reply, "findings"), i, one)
    {
        if (json_array_size(findings) < FINDINGS_MAX)
            json_array_append(findings, one);
        else
            left_off++;
    }
    json_object_set_new(
        row, "rows",
        json_integer(number_of(row, "rows") + number_of(reply, "rows")));
    json_object_set_new(row, "findings_more", json_integer(left_off));
    json_array_extend(json_object_get(row, "restores"),
                      json_object_get(reply, "restores"));
    json_object_set_new(row, "ok", json_boolean(!json_array_size(findings)));
    next = json_object_get(reply, "next");
    if (json_is_integer(next))
        json_object_set(row, "next", next);
    else
        json_object_del(row, "next");
}

void audit_report_take(struct audit_report *r, const char *process,
                       json_t *reply, const char *why, bool reached)
{
    json_t *row = json_object_get(r->rows, process);

    if (!reply) {
        json_object_set_new(r->rows, process,
                            json_pack("{s:s, s:b, s:b, s:o}", "process",
                                      process, "ok", 0, "reached", reached,
                                      "error", json_text_of(why)));
        return;
    }
    if (!row) {
        row = json_pack("{s:s, s:b, s:b, s:n, s:i, s:[], s:[], s:i}", "process",
                        process, "ok", 1, "reached", 1, "error", "rows", 0,
                        "restores", "findings", "findings_more", 0);
        json_object_set_new(r->rows, process, row);
    }
    add_page(row, reply);
    note_found(r, process, json_object_get(reply, "found"));
}

/* ---- the result ---- */

/* The caller's: what a missing hash means for its process. */
static char *missing_text(const struct published *p, const json_t *row)
{
    int64_t last = number_of(row, "last"),
            begins = number_of(row, "begins_after");
    size_t restores = json_array_size(json_object_get(row, "restores"));

    if (!row)
        return gr_printf("there is no process %s", p->process);
    if (!json_is_true(json_object_get(row, "reached")))
        return gr_strdup("its process did not reply");
    if (p->n < begins)
        return gr_printf("row %" PRId64 " is not verified: rows up to "
                         "%" PRId64 " were deleted by age; use a newer hash",
                         p->n, begins);
    if (p->n > last)
        return gr_printf("rows %" PRId64 " to %" PRId64
                         " were cut off: the newest row is %" PRId64 "%s",
                         last + 1, p->n, last,
                         restores ? ", or a restore replaced them" : "");
    return gr_printf("row %" PRId64 " has another hash: it was changed%s", p->n,
                     restores ? ", or a restore replaced it" : "");
}

json_t *audit_report_json(const struct audit_report *r)
{
    json_t *missing = json_array(), *rows = json_array(), *row;
    bool ok = true;
    const char *name;

    json_object_foreach(r->rows, name, row)
    {
        json_array_append(rows, row);
        ok = ok && json_is_true(json_object_get(row, "ok"));
    }
    for (size_t i = 0; i < r->head_count; i++) {
        const struct published *p = &r->heads[i];
        char *text;

        if (p->found)
            continue;
        ok = false;
        text = p->process
                   ? missing_text(p, json_object_get(r->rows, p->process))
                   : gr_strdup("no row of any process has this hash: rows "
                               "were cut off or changed, deleted by age, or "
                               "replaced by a restore");
        json_array_append_new(
            missing,
            json_pack("{s:s, s:o, s:s}", "head", p->text, "process",
                      p->process ? json_text_of(p->process) : json_null(),
                      "problem", text));
        free(text);
    }
    return json_pack("{s:b, s:o, s:o}", "ok", ok, "processes", rows,
                     "missing_heads", missing);
}

const char *audit_report_found(const struct audit_report *r, size_t i)
{
    for (size_t k = 0; k < r->head_count; k++)
        if (r->heads[k].found && i-- == 0)
            return r->heads[k].text;
    return NULL;
}
