#include "decide.h"
#include "keep.h"
#include "log.h"
#include <stdlib.h>

enum { AT_ONCE = 64 };

bool decide_letter(struct dlqd *d, const char *id, int state, const char *note,
                   const char *who, char why[200])
{
    struct letter l = {0};
    bool have = store_find(&d->store, wire_text(id), &l), may;

    may = letter_may_decide(have ? &l : NULL, why);
    if (may) {
        const char *name = states_name(&letter_states, state);
        char *what = gr_printf("by %s: %s", who ? who : "an operator", note);

        store_note(&d->store, l.n, note);
        keep_move(d, &l, state, what);
        free(what);
        if (l.endpoint)
            store_decision_add(&d->store, &l, name);
        log_info(l.event_id, "a letter is decided", LS("dead_letter", l.id),
                 LS("state", name), LS("note", note));
    }
    letter_fini(&l);
    return may;
}

int decide_work(struct dlqd *d)
{
    struct decision_row rows[AT_ONCE];
    int n = store_decisions(&d->store, AT_ONCE, rows), done = 0;

    for (int i = 0; i < n; i++) {
        struct hop *hop = d->daemon.hop;

        if (!rows[i].hop_n) {
            store_decision_handed(&d->store, rows[i].n,
                                  hop_next(hop, rows[i].sequencer));
            hop_put(hop, rows[i].sequencer, ROW_DECISION, rows[i].n);
        } else if (hop_cursor(hop, rows[i].sequencer) >= rows[i].hop_n) {
            store_decision_drop(&d->store, rows[i].n);
            done++;
        }
    }
    return done == AT_ONCE ? 0 : -1;
}

bool decide_load(struct dlqd *d, int64_t ref, struct buf *out)
{
    struct wire_decided m;
    bool found = store_decision(&d->store, ref, &m);

    if (found)
        wire_put_decided(out, &m);
    store_decision_done(&d->store);
    return found;
}
