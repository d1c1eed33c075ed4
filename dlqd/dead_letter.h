/* dead_letter: a delivery that failed for good: its states, and how messages change them. Pure.
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
 * Two transitions exist only after a restore from an older copy: dead → dead (dlqd's copy lacks
 * the requeue between two generations) and recovered → dead (the sequencer's copy lacks the
 * successful delivery, and its next one failed). */
#ifndef DLQD_DEAD_LETTER_H
#define DLQD_DEAD_LETTER_H

#include "row.h"
#include "states.h"
#include <jansson.h>

enum dead_letter_state {
    DEAD_LETTER_DEAD,     /* waits for a decision of an operator */
    DEAD_LETTER_REQUEUED, /* the sequencer has it, or gets it (table requeues) */
    DEAD_LETTER_RECOVERED, /* delivered after all */
    DEAD_LETTER_RESOLVED,  /* handled in another way; the note says how */
    DEAD_LETTER_DISCARDED, /* no longer needed; the note says why */
    DEAD_LETTER_STATES,
};

extern const struct states dead_letter_states;

/* The content of a message `dead`, by the names of its fields: once for the event, … */
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
/* … and at the end of each generation. */
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

/* A row of `dead_letters`. It owns its texts; dead_letter_fini() frees them. */
struct dead_letter {
    ROW_FIELDS(
        DEAD_LETTER_COLUMNS) /* `endpoint` NULL: refused before routing */
    int state;               /* enum dead_letter_state */
};

void dead_letter_fini(struct dead_letter *l);

enum dead_letter_news {
    DEAD_LETTER_NEW,       /* not known yet: store it */
    DEAD_LETTER_MOVES,     /* the dead letter changes */
    DEAD_LETTER_DUPLICATE, /* known already; nothing changes */
    DEAD_LETTER_UNKNOWN,   /* not stored here: deleted, or lost by a restore */
};

/* `l` NULL: no dead letter has this id. A message is a duplicate only if generation and time
 * match: a restored sequencer can dead-letter a delivery twice in one generation; if dlqd
 * dropped the second message, the dead letter would stay requeued forever. */
enum dead_letter_news dead_letter_died(const struct dead_letter *l,
                                       uint64_t generation, int64_t dead_ms);
enum dead_letter_news dead_letter_recovered(const struct dead_letter *l,
                                            uint64_t generation);
/* May an operator requeue it? If not, `why` says why not. */
bool dead_letter_may_retry(const struct dead_letter *l, char why[200]);
/* May an operator resolve or discard it? If not, `why` says why not. */
bool dead_letter_may_decide(const struct dead_letter *l, char why[200]);

/* The cause of a dead letter, by its reason: "endpoint" (it refused, or was unreachable),
 * "event" (it is unusable, or came too late), or "pipeline" (Grapnel's or its operator's). */
const char *dead_letter_fault(const char *reason);

/* As `grapnel dlq --json` shows it. The caller owns it. */
json_t *dead_letter_json(const struct dead_letter *l);

#endif
