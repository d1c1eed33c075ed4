/* operational: the kinds of operational events, which Grapnel sends about itself, each declared
 * once. The sequencer writes them (operational_events.h there); the configuration knows them
 * as what the source OPERATIONAL_SOURCE sends. */
#ifndef SETTINGS_OPERATIONAL_H
#define SETTINGS_OPERATIONAL_H

/* Their source. Only a subscription whose `sources` has this name gets them: no pattern, and no
 * missing `sources`, matches it. */
#define OPERATIONAL_SOURCE "grapnel"
/* The workspace of those that belong to several workspaces, or to none. No token of a workspace is
 * for it. */
#define OPERATIONAL_WORKSPACE "grapnel"

struct string_list;

/* O(NAME, type): docs/RECEIVING.md describes each of them */
#define OPERATIONAL_KINDS(O)                          \
    O(ENDPOINT_DISABLED, "grapnel.endpoint.disabled") \
    O(ENDPOINT_FAILING, "grapnel.endpoint.failing")   \
    O(DELIVERY_DEAD, "grapnel.delivery.dead")         \
    O(GAP_OPENED, "grapnel.gap.opened")               \
    O(GAP_SKIPPED, "grapnel.gap.skipped")             \
    O(ALERT_FIRING, "grapnel.alert.firing")           \
    O(ALERT_RESOLVED, "grapnel.alert.resolved")

enum operational_kind {
#define O(NAME, type) OPERATIONAL_##NAME,
    OPERATIONAL_KINDS(O)
#undef O
        OPERATIONAL_COUNT
};

/* All types, in the order of the kinds. */
extern const struct string_list operational_types;

#endif
