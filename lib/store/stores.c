/* stores: the list of databases. */
#include "stores.h"
#include "rc.h"
#include <string.h>

const struct store_kind store_kinds[] = {
    {"ingress", "grapnel-ingress", "archive", INGRESS_SCHEMA, true},
    {"sequencer", "grapnel-sequencer", "workspaces", SEQUENCER_SCHEMA, true},
    {"dlqd", "grapnel-dlqd", "contents", DLQD_SCHEMA, true},
    {"deliverer", "grapnel-deliverer", "tasks", DELIVERER_SCHEMA, false},
    {"outbox", "grapnel-outbox", "outcomes", OUTBOX_SCHEMA, false},
    {"reconcile", "grapnel-reconcile", "walks", RECONCILE_SCHEMA, false},
    {"console", "grapnel-console", "notifications", CONSOLE_SCHEMA, false},
};
const size_t store_kind_count = COUNT_OF(store_kinds);

/* Of a process (daemon_options.c). */
static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

const struct store_kind *store_kind_of(const char *process)
{
    for (size_t i = 0; i < store_kind_count; i++) {
        size_t n = strlen(store_kinds[i].process);

        if (strncmp(process, store_kinds[i].process, n) == 0 &&
            (!process[n] || process[n] == '-') &&
            !process[strspn(process, name_characters)])
            return &store_kinds[i];
    }
    return NULL;
}
