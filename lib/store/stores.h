/* stores: the databases of Grapnel: the kind of process that each belongs to, and its schema
 * version. Used by the processes, which upgrade their own, and by `grapnel restore` and
 * `grapnel verify`, which read copies of all of them. */
#ifndef STORE_STORES_H
#define STORE_STORES_H

#include <stdbool.h>
#include <stddef.h>

/* The present schema version of each store: the number of steps in PROCESS/upgrade, which
 * the build checks. A step never changes after a release (tests/golden/stores). */
enum {
    INGRESS_SCHEMA = 17,
    SEQUENCER_SCHEMA = 41,
    DELIVERER_SCHEMA = 15,
    DLQD_SCHEMA = 11,
    CONSOLE_SCHEMA = 9,
    OUTBOX_SCHEMA = 2,
    RECONCILE_SCHEMA = 1,
};

struct store_kind {
    const char *process; /* "ingress" */
    const char *program; /* "grapnel-ingress" */
    const char *table;   /* that only this kind has */
    int version;
    bool needed; /* a backup without it cannot be restored as a whole */
};
extern const struct store_kind store_kinds[];
extern const size_t store_kind_count;

/* The store of a process, or of its copy, by name: "deliverer-2". NULL: there is no such
 * kind, or no process may have this name: "ingress-a b". */
const struct store_kind *store_kind_of(const char *process);

#endif
