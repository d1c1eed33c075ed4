/* dead letter: a delivery that failed for good, its states, and what news does to
 * it. Pure.
 *
 *              dead, in a new generation
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
#ifndef DLQD_DEAD_LETTER_H
#define DLQD_DEAD_LETTER_H

#include "row.h"
#include "states.h"
#include <jansson.h>

enum dead_letter_state {
    DEAD_LETTER_DEAD,     /* needs a decision */
    DEAD_LETTER_REQUEUED, /* the sequencer has it, or will; see table requeues */
    DEAD_LETTER_RECOVERED, /* delivered after all */
    DEAD_LETTER_RESOLVED,  /* dealt with in another way, says a note */
    DEAD_LETTER_DISCARDED, /* not needed any more, says a note */
    DEAD_LETTER_STATES,
};

extern const struct states dead_letter_states;

/* What a message `dead` says, in its fields' names: of the event, once, … */
#define DEAD_LETTER_EVENT(F, X, text, text_or_null) \
    F(text, event_id)                               \
    X(text_or_null, endpoint)                       \
    X(text, source)                                 \
    X(text, provider_id)                            \
    X(text, type)                                   \
    X(text, workspace)                              \
    X(i64, received_ms)                             \
    X(i64, sequence)                                \
    X(i64, previous)                                \
    X(text, clock)
/* … and of a generation's end. */
#define DEAD_LETTER_END(F, X, text, blob) \
    F(i64, generation)                    \
    X(text, reason)                       \
    X(i64, attempts)                      \
    X(i64, first_ms)                      \
    X(i64, dead_ms)                       \
    X(i64, last_http_status)              \
    X(text, last_error)                   \
    X(blob, last_response)
#define DEAD_LETTER_COLUMNS(F, X)                         \
    F(i64, n)                                             \
    X(own, id)                                            \
    X(own, sequencer)                                     \
    DEAD_LETTER_EVENT(X, X, own, own_or_null)             \
    DEAD_LETTER_END(X, X, own, own_blob) X(i64, moved_ms) \
    X(own, note)

/* A row of `dead_letters`. Texts are owned; dead_letter_fini() frees them. */
struct dead_letter {
    ROW_FIELDS(
        DEAD_LETTER_COLUMNS) /* `endpoint` NULL: refused before routing */
    int state;               /* enum dead_letter_state */
};

void dead_letter_fini(struct dead_letter *l);

enum dead_letter_news {
    DEAD_LETTER_NEW,       /* not seen before: keep it */
    DEAD_LETTER_MOVES,     /* the dead letter changes */
    DEAD_LETTER_DUPLICATE, /* known already; nothing changes */
    DEAD_LETTER_UNKNOWN, /* about a dead letter that is not here (purged, or restored) */
};

/* `l` NULL: there is none of that id. It is the same dead letter only if generation
 * and time are: a sequencer that was restored can die twice in one generation, and
 * a dead letter that we take for requeued would then wait for ever. */
enum dead_letter_news dead_letter_died(const struct dead_letter *l,
                                       uint64_t generation, int64_t dead_ms);
enum dead_letter_news dead_letter_recovered(const struct dead_letter *l,
                                            uint64_t generation);
/* May an operator have it tried again? If not, `why` says it in words. */
bool dead_letter_may_retry(const struct dead_letter *l, char why[200]);
/* May an operator resolve or discard it? */
bool dead_letter_may_decide(const struct dead_letter *l, char why[200]);

/* What caused a dead letter, by its reason: "endpoint" (it refused, or could not be
 * reached), "event" (it can't be used, or came too late), or "pipeline" (ours, or
 * of who runs us). */
const char *dead_letter_fault(const char *reason);

/* As `grapnel dlq --json` shows it. The caller's. */
json_t *dead_letter_json(const struct dead_letter *l);

#endif
