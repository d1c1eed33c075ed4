/* facts: what the pipeline would take a request for: by the same profile and
 * the same expressions as the sequencer. Pure. */
#ifndef CTL_FACTS_H
#define CTL_FACTS_H

#include "settings.h"
#include <jansson.h>

struct facts {
    struct buf id, type, workspace; /* id may be empty: it has none */
    char refused[300]; /* why the event would be refused, "" when not */
    size_t count;      /* events that the request carries */
};

/* `headers` packed, `body` raw; borrowed. facts_fini() in any case. */
void facts_read(struct facts *f, const struct source *source,
                struct bytes headers, struct bytes body);
void facts_fini(struct facts *f);

/* [{"keys":{"source":"plane","body_sha256":"…"}}, …]; null for a value that is
 * not in this request. The caller's. */
json_t *facts_dedupe(const struct facts *f, const struct source *source,
                     struct bytes headers, struct bytes body);

#endif
