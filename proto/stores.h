/* stores: the databases that there are: of which kind of process, and with which schema
 * version. For the processes, which migrate their own, and for `grapnel restore` and
 * `grapnel verify`, which read copies of all. */
#ifndef PROTO_STORES_H
#define PROTO_STORES_H

#include <stdbool.h>
#include <stddef.h>

/* How many steps lead to today's schema. A new step belongs at the end of its store's list,
 * with one more here; the steps before it never change (tests/golden/stores). */
enum {
    INGRESS_SCHEMA = 10,
    SEQUENCER_SCHEMA = 19,
    DELIVERER_SCHEMA = 10,
    DLQD_SCHEMA = 6,
    CONSOLE_SCHEMA = 2,
};

/* In each store, beside its list of steps. */
#define STORE_HAS_STEPS(steps, version)           \
    _Static_assert(COUNT_OF(steps) == (version),  \
                   "a step was added: " #version  \
                   " in proto/stores.h is their " \
                   "number")

struct store_kind {
    const char *process; /* "ingress" */
    const char *program; /* "grapnel-ingress" */
    const char *table;   /* that no other kind has */
    int version;
    bool needed; /* a backup without it can't be restored as a whole */
};
extern const struct store_kind store_kinds[];
extern const size_t store_kind_count;

/* Of a process or its copy, by name: "deliverer-2". NULL: there is no such kind. */
const struct store_kind *store_kind_of(const char *process);

#endif
