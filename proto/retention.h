/* retention: how long a process keeps what is over: events and deliveries, attempts.
 *
 * For history.keep; but where its database holds more than its share of what the
 * disk has room for, the oldest goes at once. A long history is worth less than a
 * door that is open, which the disk shuts when it is nearly full (ingress/room.h). */
#ifndef PROTO_RETENTION_H
#define PROTO_RETENTION_H

#include "db.h"
#include "settings.h"

struct retention {
    int64_t said_ms; /* wall: when the log was last told; 0: never */
};

/* 0: forget, oldest first, and ask again soon. Says so once an hour. */
int64_t retention_keep_ms(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms);

#endif
