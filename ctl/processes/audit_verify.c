/* audit_verify: `grapnel audit verify`: has each process verify the hash chain of its audit rows,
 * and compares it with hashes that were published. */
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include <inttypes.h>
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

struct verification {
    struct published heads[HEADS_MAX];
    size_t head_count;
    json_t *rows; /* of the output: one for each process */
};

/* ---- published hashes ---- */

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_DIGITS &&
           strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

/* false: it is not one. Takes `text` over. */
static bool add_head(struct verification *v, char *text)
{
    struct published *p = &v->heads[v->head_count++];
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

static bool read_heads(struct verification *v, const char *list)
{
    static const char between[] = ", \t\r\n";

    while (list && *(list += strspn(list, between))) {
        size_t n = strcspn(list, between);

        if (v->head_count == HEADS_MAX) {
            complain(EXIT_USAGE, "--head: at most %d hashes", HEADS_MAX);
            return false;
        }
        if (!add_head(v, gr_strndup(list, n))) {
            complain(EXIT_USAGE,
                     "--head: \"%.*s\" is not a published hash: write "
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

static json_t *wanted(const struct verification *v, const char *process)
{
    json_t *out = json_array();

    for (size_t i = 0; i < v->head_count; i++)
        if (is_of(&v->heads[i], process))
            json_array_append_new(out, json_string(v->heads[i].hash));
    return out;
}

static void note_found(struct verification *v, const char *process,
                       const json_t *found)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)found, i, one)
    {
        const char *hash = json_string_value(json_object_get(one, "hash"));

        for (size_t k = 0; k < v->head_count; k++)
            if (hash && is_of(&v->heads[k], process) &&
                strcmp(hash, v->heads[k].hash) == 0)
                v->heads[k].found = true;
    }
}

/* ---- one process ---- */

static void extend_limited(json_t *all, json_t *more, int64_t *left_off)
{
    json_t *one;
    size_t i;

    json_array_foreach(more, i, one)
    {
        if (json_array_size(all) < FINDINGS_MAX)
            json_array_append(all, one);
        else
            ++*left_off;
    }
}

static json_t *failed(const char *process, const char *why, bool reached)
{
    return json_pack("{s:s, s:b, s:b, s:o}", "process", process, "ok", 0,
                     "reached", reached, "error", json_text_of(why));
}

/* Asks for page after page. */
static json_t *verify_process(struct ctl *c, struct verification *v,
                              const char *process)
{
    json_t *findings = json_array(), *restores = json_array();
    json_t *next = json_integer(0), *reply = NULL, *row = NULL;
    int64_t rows = 0, left_off = 0;
    bool unreachable;
    char why[200];

    while (json_is_integer(next)) {
        json_decref(reply);
        reply = ask(
            c, process, "audit_verify",
            json_pack("{s:o, s:o}", "after", next, "heads", wanted(v, process)),
            ASK_MS, &unreachable, why);
        if (!reply) {
            row = failed(process, why, !unreachable);
            break;
        }
        rows += integer_of(reply, "rows");
        extend_limited(findings, json_object_get(reply, "findings"), &left_off);
        left_off += integer_of(reply, "findings_more");
        json_array_extend(restores, json_object_get(reply, "restores"));
        note_found(v, process, json_object_get(reply, "found"));
        next = json_incref(json_object_get(reply, "next"));
    }
    if (reply) {
        json_decref(next);
        row = json_pack(
            "{s:s, s:b, s:b, s:n, s:I, s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:I}",
            "process", process, "ok", json_array_size(findings) == 0, "reached",
            1, "error", "rows", (json_int_t)rows, "last",
            json_object_get(reply, "last"), "begins_after",
            json_object_get(reply, "begins_after"), "begins_at",
            json_object_get(reply, "begins_at"), "unchained",
            json_object_get(reply, "unchained"), "key",
            json_object_get(reply, "key"), "restores", restores, "findings",
            findings, "findings_more", (json_int_t)left_off);
    }
    json_decref(reply);
    json_decref(findings);
    json_decref(restores);
    return row;
}

/* ---- published hashes that no row has ---- */

static json_t *row_of(const struct verification *v, const char *process)
{
    json_t *row;
    size_t i;

    json_array_foreach(v->rows, i, row) if (strcmp(text_of(row, "process"),
                                                   process) == 0) return row;
    return NULL;
}

/* The caller's: what a missing hash means for its process. */
static char *missing_text(const struct published *p, const json_t *row)
{
    int64_t last = integer_of(row, "last"),
            begins = integer_of(row, "begins_after");
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

static void add_missing(struct verification *v, json_t *missing)
{
    for (size_t i = 0; i < v->head_count; i++) {
        const struct published *p = &v->heads[i];
        char *text;

        if (p->found)
            continue;
        text = p->process ? missing_text(p, row_of(v, p->process))
                          : gr_strdup("no row of any process has this hash: "
                                      "rows were cut off or changed, deleted "
                                      "by age, or replaced by a restore");
        json_array_append_new(
            missing,
            json_pack("{s:s, s:o, s:s}", "head", p->text, "process",
                      p->process ? json_text_of(p->process) : json_null(),
                      "problem", text));
        free(text);
    }
}

/* ---- output ---- */

static void print_finding(const json_t *f)
{
    int64_t from = integer_of(f, "from"), to = integer_of(f, "to");
    const char *what = text_of(f, "what");
    char rows[60];

    if (from == to)
        snprintf(rows, sizeof rows, "row %" PRId64, from);
    else
        snprintf(rows, sizeof rows, "rows %" PRId64 " to %" PRId64, from, to);
    if (strcmp(what, "changed") == 0)
        printf("  %s: changed or inserted\n", rows);
    else if (strcmp(what, "missing") == 0)
        printf("  %s: removed\n", rows);
    else if (strcmp(what, "unlinked") == 0)
        printf("  %s: the hash does not follow from the row before: rows were "
               "changed, swapped, inserted or removed here\n",
               rows);
    else if (strcmp(what, "unknown_key") == 0)
        printf("  %s: written with the key %s, which is not in audit.key or "
               "audit.old_keys\n",
               rows, text_of(f, "key"));
    else if (strcmp(what, "anchor") == 0)
        printf("  the record of where the chain begins was changed or "
               "removed\n");
    else
        printf("  rows were inserted before the beginning of the chain\n");
}

static void print_row(struct ctl *c, const json_t *row)
{
    bool ok = json_is_true(json_object_get(row, "ok")),
         reached = json_is_true(json_object_get(row, "reached"));
    json_t *one;
    size_t i;

    printf("%-14s %s%s%s", text_of(row, "process"),
           colour_on(ok ? GREEN : RED, c->colour),
           ok        ? "ok"
           : reached ? "BROKEN"
                     : "failed",
           colour_off(ok ? GREEN : RED, c->colour));
    if (*text_of(row, "error")) {
        printf(": %s\n", text_of(row, "error"));
        return;
    }
    printf("  %" PRId64 " rows, the newest is %" PRId64,
           integer_of(row, "rows"), integer_of(row, "last"));
    if (integer_of(row, "unchained"))
        printf("; %" PRId64 " rows are older than the chain, which began %s",
               integer_of(row, "unchained"), time_of(row, "begins_at"));
    putchar('\n');
    json_array_foreach(json_object_get(row, "findings"), i, one)
        print_finding(one);
    if (integer_of(row, "findings_more"))
        printf("  and %" PRId64 " more\n", integer_of(row, "findings_more"));
    json_array_foreach(json_object_get(row, "restores"), i, one)
        printf("  row %" PRId64 ": restored from a backup, %s\n",
               integer_of(one, "n"), time_of(one, "at"));
}

static void print_all(struct ctl *c, const struct verification *v,
                      const json_t *missing)
{
    json_t *one;
    size_t i;

    json_array_foreach(v->rows, i, one) print_row(c, one);
    for (i = 0; i < v->head_count; i++)
        if (v->heads[i].found)
            printf("%s: in the chain\n", v->heads[i].text);
    json_array_foreach((json_t *)(uintptr_t)missing, i, one)
        printf("%s: %s\n", text_of(one, "head"), text_of(one, "problem"));
}

int run_audit_verify(struct ctl *c)
{
    struct verification v = {0};
    json_t *missing = json_array(), *row;
    struct processes p;
    int code = EXIT_USAGE, away;
    size_t i;

    v.rows = json_array();
    if (read_heads(&v, parsed_value(&c->parsed, "--head"))) {
        processes_find(c, &p);
        for (i = 0; i < p.count; i++)
            json_array_append_new(v.rows, verify_process(c, &v, p.names[i]));
        processes_fini(&p);
        add_missing(&v, missing);
        code = json_array_size(missing) ? EXIT_REFUSED : 0;
        json_array_foreach(v.rows, i,
                           row) if (!json_is_true(json_object_get(row, "ok")))
            code = EXIT_REFUSED;
        if (c->json)
            print_json(json_pack("{s:b, s:O, s:O}", "ok", code == 0,
                                 "processes", v.rows, "missing_heads",
                                 missing));
        else
            print_all(c, &v, missing);
        fflush(stdout);
        away = complain_all_away(c, v.rows, "reached");
        code = away ? away : code;
    }
    for (i = 0; i < v.head_count; i++) {
        free(v.heads[i].text);
        free(v.heads[i].process);
    }
    json_decref(v.rows);
    json_decref(missing);
    return code;
}
