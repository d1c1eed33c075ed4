/* redirect: resolves a dead letter and sends its event to another endpoint. */
#include "redirect.h"
#include "decide.h"
#include "requeue.h"
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 64, ACKNOWLEDGED = -1 };

bool redirect_dead_letter(struct dlqd *d, const char *id, const char *to,
                          uint64_t action_id, const char *who, char why[200])
{
    struct dead_letter l = {0};
    bool may = store_find(&d->store, wire_text(id), &l);
    struct redirect_row row = {.dead_letter = l.n, .action_id = action_id};
    char *note;

    if (may && !l.endpoint)
        snprintf(
            why, 200,
            "its event was refused before routing: correct the cause, then "
            "retry it without --to");
    else if (may && strcmp(l.endpoint, to) == 0)
        snprintf(why, 200, "it failed at this endpoint: retry it without --to");
    if (may && (!l.endpoint || strcmp(l.endpoint, to) == 0)) {
        dead_letter_fini(&l);
        return false;
    }
    if (may && letter_damaged(d, &l, why)) {
        dead_letter_fini(&l);
        return false;
    }
    note = gr_printf("sent to %s instead", to);
    may = decide_dead_letter(d, id, DEAD_LETTER_RESOLVED, note, who, why);
    if (may) {
        wire_copy(row.sequencer, sizeof row.sequencer, wire_text(l.sequencer));
        wire_copy(row.endpoint, sizeof row.endpoint, wire_text(to));
        store_redirect_add(&d->store, &row);
    }
    free(note);
    dead_letter_fini(&l);
    return may;
}

int redirect_work(struct dlqd *d)
{
    struct redirect_row rows[AT_ONCE];
    struct links *links = d->daemon.links;
    int n = store_redirects(&d->store, AT_ONCE, rows), done = 0;

    for (int i = 0; i < n; i++) {
        const struct redirect_row *r = &rows[i];

        if (!r->link_n) {
            store_redirect_at(&d->store, r->n,
                              (int64_t)links_next(links, r->sequencer));
            links_put(links, r->sequencer, ROW_REDIRECT, r->n);
        } else if (links_cursor(links, r->sequencer) >= (uint64_t)r->link_n) {
            store_redirect_at(&d->store, r->n, ACKNOWLEDGED);
            done++;
        }
    }
    return done == AT_ONCE ? 0 : -1;
}

static void put(struct buf *out, const struct dead_letter *l,
                const struct redirect_row *r, struct bytes headers,
                struct bytes body)
{
    struct wire_redirected m = {
        .action_id = r->action_id,
        .dead_letter_id = wire_text(l->id),
        .to = wire_text(r->endpoint),
        .event_id = wire_text(l->event_id),
        .source = wire_text(l->source),
        .provider_id = wire_text(l->provider_id),
        .type = wire_text(l->type),
        .workspace = wire_text(l->workspace),
        .received_ms = l->received_ms,
        .sequence = (uint64_t)l->sequence,
        .clock = wire_text(l->clock),
        .headers = headers,
        .body = body,
    };

    wire_put_redirected(out, &m);
}

bool redirect_load(struct dlqd *d, int64_t ref, struct buf *out)
{
    struct bytes headers, body;
    struct redirect_row row;
    struct dead_letter l;
    bool found;

    if (!store_redirect(&d->store, ref, &row) ||
        !store_find_n(&d->store, row.dead_letter, &l))
        return false;
    found = letter_content(d, &l, &headers, &body);
    if (found) {
        put(out, &l, &row, headers, body);
        store_content_done(&d->store);
    }
    dead_letter_fini(&l);
    return found;
}
