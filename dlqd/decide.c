/* decide: resolves and discards dead letters, and sends these decisions to the sequencer. */
#include "decide.h"
#include "dead_letters.h"
#include "log.h"
#include <stdlib.h>

enum { AT_ONCE = 64 };

bool decide_dead_letter(struct dlqd *d, const char *id, int state,
                        const char *note, const char *who, char why[200])
{
    struct dead_letter l = {0};
    bool have = store_find(&d->store, wire_text(id), &l), may;

    may = dead_letter_may_decide(have ? &l : NULL, why);
    if (may) {
        const char *name = states_name(&dead_letter_states, state);
        char *what = gr_printf("by %s: %s", who ? who : "an operator", note);

        store_note(&d->store, l.n, note);
        dead_letter_transition(d, &l, state, what);
        free(what);
        store_decision_add(&d->store, &l, name);
        log_info(l.event_id, "a dead letter is decided",
                 LS("dead_letter", l.id), LS("state", name), LS("note", note));
    }
    dead_letter_fini(&l);
    return may;
}

int decide_work(struct dlqd *d)
{
    struct decision_row rows[AT_ONCE];
    int n = store_decisions(&d->store, AT_ONCE, rows), done = 0;

    for (int i = 0; i < n; i++) {
        struct links *links = d->daemon.links;

        if (!rows[i].link_n) {
            store_decision_handed(&d->store, rows[i].n,
                                  links_next(links, rows[i].sequencer));
            links_put(links, rows[i].sequencer, ROW_DECISION, rows[i].n);
        } else if (links_cursor(links, rows[i].sequencer) >= rows[i].link_n) {
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
