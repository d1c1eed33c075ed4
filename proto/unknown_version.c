/* The peers' frames of unknown versions that were already logged. */
#include "unknown_version.h"
#include "bounds.h"
#include "log.h"
#include <string.h>

static struct {
    char peer[NAME_MAX_BYTES + 1];
    int kind;
    uint64_t version;
} said[UNKNOWN_VERSIONS_MAX];
static size_t said_count;

void unknown_version_warn(struct bytes peer, const struct wire_head *head)
{
    char name[NAME_MAX_BYTES + 1];

    wire_copy(name, sizeof name, peer);
    if (said_count == UNKNOWN_VERSIONS_MAX)
        return;
    for (size_t i = 0; i < said_count; i++)
        if (said[i].kind == head->kind && said[i].version == head->version &&
            strcmp(said[i].peer, name) == 0)
            return;
    memcpy(said[said_count].peer, name, sizeof name);
    said[said_count].kind = head->kind;
    said[said_count++].version = head->version;
    log_warn(NULL,
             "a peer runs another version of Grapnel; its messages wait there "
             "until both run the same version",
             LS("peer", name), LS("kind", wire_kind_name(head->kind)),
             LI("kind_number", head->kind), LI("version", head->version),
             LI("known_version", wire_known_version(head->kind)));
}
