/* requeue: requeues dead letters, and makes the messages of the link to the sequencer. */
#include "requeue.h"
#include "db_sums.h"
#include "dead_letters.h"
#include "decide.h"
#include "log.h"
#include "redirect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEUE_MAX = 128 }; /* sent again in one turn */

bool letter_content(struct dlqd *d, const struct dead_letter *l,
                    struct bytes *headers, struct bytes *body)
{
    if (!store_content(&d->store, l->n, headers, body))
        return false;
    if (!store_content_damaged(&d->store))
        return true;
    store_content_done(&d->store);
    db_damage_found(l->event_id, db_path(d->daemon.db), "contents");
    return false;
}

bool letter_damaged(struct dlqd *d, const struct dead_letter *l, char why[200])
{
    struct bytes headers, body;
    bool found = store_content(&d->store, l->n, &headers, &body);
    bool here = found && store_content_damaged(&d->store);

    if (found)
        store_content_done(&d->store);
    if (here)
        db_damage_found(l->event_id, db_path(d->daemon.db), "contents");
    if (!here && strcmp(l->reason, "damaged") != 0 &&
        strcmp(l->reason, "refused:damaged") != 0)
        return false;
    snprintf(why, 200,
             "its stored data is damaged; `grapnel resend %s` sends the event "
             "again from the archive of ingress",
             l->event_id);
    return true;
}

bool requeue_dead_letter(struct dlqd *d, const char *id, const char *who,
                         char why[200])
{
    struct dead_letter l = {0};
    bool have = store_find(&d->store, wire_text(id), &l), may;

    may = dead_letter_may_retry(have ? &l : NULL, why) &&
          !letter_damaged(d, &l, why);
    if (may) {
        char *what = gr_printf("by %s", who ? who : "an operator");

        dead_letter_transition(d, &l, DEAD_LETTER_REQUEUED, what);
        free(what);
        links_put(d->daemon.links, l.sequencer, ROW_REQUEUE,
                  store_requeue_add(&d->store, l.n, l.generation));
        log_info(l.event_id, "a dead letter is requeued",
                 LS("dead_letter", l.id), LI("generation", l.generation));
    }
    dead_letter_fini(&l);
    return may;
}

static void put_requeued(struct buf *out, const struct dead_letter *l,
                         int64_t generation, struct bytes headers,
                         struct bytes body)
{
    struct wire_requeued m = {
        .dead_letter_id = wire_text(l->id),
        .generation = (uint64_t)generation,
        .event_id = wire_text(l->event_id),
        .endpoint = wire_text(l->endpoint),
        .source = wire_text(l->source),
        .provider_id = wire_text(l->provider_id),
        .type = wire_text(l->type),
        .workspace = wire_text(l->workspace),
        .received_ms = l->received_ms,
        .sequence = (uint64_t)l->sequence,
        .previous = (uint64_t)l->previous,
        .clock = wire_text(l->clock),
        .attempts = (uint64_t)l->attempts,
        .headers = headers,
        .body = body,
    };

    wire_put_requeued(out, &m);
}

bool requeue_load(void *self, const char *peer, uint64_t n, int kind,
                  int64_t ref, struct buf *out)
{
    struct dlqd *d = self;
    struct dead_letter l;
    struct bytes headers, body;
    int64_t dead_letter, generation;
    bool found;

    (void)peer;
    (void)n;
    if (kind == ROW_DECISION)
        return decide_load(d, ref, out);
    if (kind == ROW_REDIRECT)
        return redirect_load(d, ref, out);
    if (kind != ROW_REQUEUE ||
        !store_requeue_get(&d->store, ref, &dead_letter, &generation) ||
        !store_find_n(&d->store, dead_letter, &l))
        return false;
    found = letter_content(d, &l, &headers, &body);
    if (found) {
        put_requeued(out, &l, generation, headers, body);
        store_content_done(&d->store);
    }
    dead_letter_fini(&l);
    return found;
}

void requeue_rewound(void *self, const char *peer, bool we_are_older)
{
    struct dlqd *d = self;
    /* Older redirects are not sent again: the sequencer's history may no longer have their
     * actions. */
    int64_t since_ms = d->daemon.loop.now_ms -
                       d->daemon.settings->history_keep_ms;
    int count = store_requeues_again(&d->store, peer) +
                store_decisions_again(&d->store, peer) +
                store_redirects_again(&d->store, peer, since_ms);

    (void)we_are_older; /* both cases are treated alike */
    if (count)
        log_warn(NULL,
                 "the sequencer or dlqd was restored; sending requeues, "
                 "decisions and redirects again",
                 LS("peer", peer), LI("count", count));
}

int requeue_work(struct dlqd *d)
{
    char sequencer[NAME_MAX_BYTES + 1];
    int64_t n;

    for (int i = 0; i < REQUEUE_MAX; i++) {
        if (!store_requeue_not_in_log(&d->store, &n, sequencer))
            return -1;
        links_put(d->daemon.links, sequencer, ROW_REQUEUE, n);
    }
    return 0;
}
