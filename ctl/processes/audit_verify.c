/* audit_verify: `grapnel audit verify`: has each process verify the hash chain of its audit rows,
 * and compares it with hashes that were published. */
#include "ask.h"
#include "audit_report.h"
#include "table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Asks for page after page. */
static void verify_process(struct ctl *c, struct audit_report *r,
                           const char *process)
{
    json_t *args, *reply;

    while ((args = audit_report_ask(r, process))) {
        bool unreachable = false;
        char why[200] = "";

        reply = ask(c, process, "audit_verify", args, ASK_MS, &unreachable,
                    why);
        audit_report_take(r, process, reply, why, !unreachable);
        json_decref(reply);
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

static void print_all(struct ctl *c, const struct audit_report *r,
                      const json_t *result)
{
    const char *head;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(result, "processes"), i, one)
        print_row(c, one);
    for (i = 0; (head = audit_report_found(r, i)); i++)
        printf("%s: in the chain\n", head);
    json_array_foreach(json_object_get(result, "missing_heads"), i, one)
        printf("%s: %s\n", text_of(one, "head"), text_of(one, "problem"));
}

int run_audit_verify(struct ctl *c)
{
    struct audit_report *r = audit_report_new();
    struct processes p;
    json_t *result;
    char why[300];
    int code, away;

    if (!audit_report_heads(r, parsed_value(&c->parsed, "--head"), why)) {
        audit_report_free(r);
        return complain(EXIT_USAGE, "--head: %s", why);
    }
    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++)
        verify_process(c, r, p.names[i]);
    processes_fini(&p);
    result = audit_report_json(r);
    code = json_is_true(json_object_get(result, "ok")) ? 0 : EXIT_REFUSED;
    if (c->json)
        print_json(json_incref(result));
    else
        print_all(c, r, result);
    fflush(stdout);
    away = complain_all_away(c, json_object_get(result, "processes"),
                             "reached");
    json_decref(result);
    audit_report_free(r);
    return away ? away : code;
}
