/* operational_archive: the headers and bodies of operational events (operational_events.h), as
 * ingress has those of all other events: they are shown and sent again from here.
 *
 * A row is written in the transaction that writes the event, and deleted with the event's row after
 * `history.keep`, or when its workspace is erased. At most one event is written for each subject,
 * type and minute, so the table stays small. Control commands run inside the turn's transaction. */
#ifndef SEQUENCER_OPERATIONAL_ARCHIVE_H
#define SEQUENCER_OPERATIONAL_ARCHIVE_H

#include "db.h"
#include <jansson.h>

struct operational_archive;

struct operational_archive *operational_archive_open(struct db *db);
void operational_archive_close(struct operational_archive *a);
void operational_archive_add(struct operational_archive *a, int64_t event,
                             int64_t received_ms, struct bytes headers,
                             struct bytes body);
/* `data` of its body; the caller's. NULL: the body is not stored. */
json_t *operational_archive_data(struct operational_archive *a, int64_t event);

/* The commands `archive`, `request` and `resend`, with the replies of those of ingress. */
json_t *operational_archive_list(void *self, json_t *args, char why[200]);
json_t *operational_archive_show(void *self, json_t *args, char why[200]);
json_t *operational_archive_resend(void *self, json_t *args, char why[200]);

#endif
