/* request_summary: what the pipeline would take a request for: by the same profile and
 * the same expressions as the sequencer. Pure. */
#ifndef CTL_REQUEST_SUMMARY_H
#define CTL_REQUEST_SUMMARY_H

#include "settings.h"
#include <jansson.h>

struct request_summary {
    struct buf id, type, workspace; /* id may be empty: it has none */
    char refused[300]; /* why the event would be refused, "" when not */
    size_t count;      /* events that the request carries */
};

/* `headers` packed, `body` raw; borrowed. request_summary_fini() in any case. */
void request_summary_read(struct request_summary *f,
                          const struct source *source, struct bytes headers,
                          struct bytes body);
void request_summary_fini(struct request_summary *f);

/* [{"keys":{"source":"plane","body_sha256":"…"}}, …]; null for a value that is
 * not in this request. The caller's. */
json_t *request_summary_dedupe(const struct request_summary *f,
                               const struct source *source,
                               struct bytes headers, struct bytes body);

#endif
