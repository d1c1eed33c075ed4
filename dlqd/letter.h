/* letter: a delivery that failed for good, its states, and what news does to
 * it. Pure.
 *
 *              dead, in a new life
 *            ┌─────────────────────┐
 *            ▼      operator       │
 *   ───▶  dead ───────────────▶ requeued
 *          │ │                     │
 *          │ │ late success        │ delivered
 *          │ └───────▶ recovered ◀─┘
 *          │ operator      ▲ late success
 *          └───▶ resolved, discarded
 *
 * Two edges exist only because a process may come back from an older copy of
 * its database: dead → dead (we forgot the requeue between two lives) and
 * recovered → dead (the sequencer forgot the delivery, and failed at it). */
#ifndef DLQD_LETTER_H
#define DLQD_LETTER_H

#include "states.h"
#include <jansson.h>

enum letter_state {
    LETTER_DEAD,      /* wants a decision */
    LETTER_REQUEUED,  /* the sequencer has it, or will; see table requeues */
    LETTER_RECOVERED, /* delivered after all */
    LETTER_RESOLVED,  /* dealt with in another way, says a note */
    LETTER_DISCARDED, /* not wanted any more, says a note */
    LETTER_STATES,
};

extern const struct states letter_states;

/* A row of `letters`. Texts are owned; letter_fini() frees them. */
struct letter {
    int64_t n;
    char *id;
    int64_t life;
    int state;
    char *sequencer;
    char *event_id;
    char *endpoint; /* NULL: refused before routing */
    char *reason, *source, *provider_id, *type, *workspace;
    int64_t received_ms, sequence, previous;
    char *clock;
    int64_t attempts, first_ms, dead_ms, last_http_status;
    char *last_error;
    char *note;                 /* "" for none */
    struct bytes last_response; /* owned too */
    int64_t moved_ms;
};

void letter_fini(struct letter *l);

enum letter_news {
    LETTER_NEW,      /* not seen before: keep it */
    LETTER_MOVES,    /* the letter changes */
    LETTER_REPEATED, /* known already; nothing changes */
    LETTER_UNKNOWN,  /* about a letter that is not here (purged, or restored) */
};

/* `l` NULL: there is none of that id. A death is the same death only if life
 * and time are: a sequencer that was restored can die twice in one life, and
 * a letter that we take for requeued would then wait for ever. */
enum letter_news letter_died(const struct letter *l, uint64_t life,
                             int64_t dead_ms);
enum letter_news letter_recovered(const struct letter *l, uint64_t life);
/* May an operator have it tried again? If not, `why` says it in words. */
bool letter_may_retry(const struct letter *l, char why[200]);
/* May an operator resolve or discard it? */
bool letter_may_decide(const struct letter *l, char why[200]);

/* Whose fault a death is, by its reason: "endpoint" (it refused, or could not be
 * reached), "event" (it can't be used, or came too late), or "pipeline" (ours, or
 * of who runs us). */
const char *letter_fault(const char *reason);

/* As `grapnel dlq --json` shows it. The caller's. */
json_t *letter_json(const struct letter *l);

#endif
