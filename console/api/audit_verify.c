/* audit_verify: GET /audit/verify: asks each process to verify its audit chain, page after page. */
#include "api_request.h"
#include "audit_report.h"
#include "clock.h"
#include "commands.h"
#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 2,
    LONGEST_MS = 55 * 1000, /* clients wait for a minute */
};

struct verifying {
    struct audit_report *report;
    struct processes processes;
    int64_t until_ms; /* mono */
};

static void verifying_free(void *state)
{
    struct verifying *v = state;

    audit_report_free(v->report);
    processes_fini(&v->processes);
    free(v);
}

static bool begin(struct api_request *r)
{
    const char *heads = json_string_value(json_object_get(r->args, "head"));
    const struct api_request *other;
    struct verifying *v;
    char why[300];
    int others = 0;

    TAILQ_FOREACH(other, &r->api->all, link)
    others += other != r && other->command == r->command && other->state &&
              !other->responded;
    if (others >= AT_ONCE) {
        web_add_header(r->web, "Retry-After", "5");
        api_fail(r, WEB_BUSY, NULL,
                 "%d other requests verify the audit: repeat this one later",
                 AT_ONCE);
        return false;
    }
    v = gr_alloc(sizeof *v);
    v->report = audit_report_new();
    v->until_ms = mono_ms() + LONGEST_MS;
    processes_in(r->api->daemon->settings->run_dir, &v->processes);
    r->state = v;
    r->state_free = verifying_free;
    if (audit_report_heads(v->report, heads, why))
        return true;
    api_fail(r, WEB_INVALID_ARGUMENT, "head", "head: %s", why);
    return false;
}

static void take_replies(const struct api_request *r, struct audit_report *into)
{
    for (size_t i = 0; i < r->asked_count; i++) {
        const struct process_question *q = r->asked[i];

        audit_report_take(into, q->name, q->reply,
                          q->end == QUESTION_REFUSED ? q->why
                                                     : "it did not reply",
                          q->end == QUESTION_REFUSED);
    }
}

void audit_verify_all(struct api_request *r)
{
    struct verifying *v;

    if (r->stage++ == 0 && !begin(r))
        return;
    v = r->state;
    take_replies(r, v->report);
    api_forget(r);
    if (mono_ms() > v->until_ms) {
        api_fail(r, WEB_PROCESS_TIMEOUT, NULL,
                 "the processes did not verify all rows within %d s: use "
                 "`grapnel audit verify`",
                 LONGEST_MS / 1000);
        return;
    }
    for (size_t i = 0; i < v->processes.count; i++) {
        json_t *args = audit_report_ask(v->report, v->processes.names[i]);

        if (args)
            api_ask(r, v->processes.names[i], &command_audit_verify, args);
    }
    if (!r->asked_count)
        api_respond(r, audit_report_json(v->report));
}
