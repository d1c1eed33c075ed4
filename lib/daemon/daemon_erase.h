/* daemon_erase: the command `erase`, by which the sequencer makes each process erase what it has of a
 * workspace (docs/decisions/0101).
 *
 * A request does a bounded part, in the turn's transaction, and may be repeated. The phases come in
 * the order of the enum; the sequencer asks each process until it replies `done`. */
#ifndef DAEMON_DAEMON_ERASE_H
#define DAEMON_DAEMON_ERASE_H

#include "erasures.h"
#include <jansson.h>

struct daemon;

enum erase_phase {
    ERASE_REFUSE, /* take no more events of it */
    ERASE_HANDED, /* done when the sequencer has all that were taken before */
    ERASE_EVENTS, /* erase what is there of these events */
    ERASE_REST,   /* erase what is found by the name */
    ERASE_SCRUB,  /* overwrite unused pages, and empty the write-ahead log */
};

struct erase_step {
    enum erase_phase phase;
    const char *hash;
    const char *workspace; /* its name; NULL: only the hash is known */
    const json_t *ids;     /* of ERASE_EVENTS: texts */
    const struct erasures *erasures;
    int64_t
        position;    /* 0 at first; changed: where the next request continues */
    int64_t changed; /* rows that were erased */
    bool done;
    char waits_for[200]; /* in words; "": for nothing */
};

/* What a process does in a phase: daemon_plan's `erase`. `done` is false on entry. */
typedef void erase_fn(void *self, struct erase_step *s);
/* daemon_plan's `owns`: whether what has this id (an event, a dead letter) belongs to the workspace,
 * or did so before it was erased. */
typedef bool erase_owns_fn(void *self, const struct erase_step *s,
                           const char *id);
/* Whether this is the workspace that is erased. */
bool erase_is(const struct erase_step *s, const char *workspace);

/* Control command `erase`. self: struct daemon. */
json_t *daemon_erase_ask(void *self, json_t *args, char why[200]);

#endif
