/* pg_connection: connects to a PostgreSQL server by libpq, within a time limit of ours.
 *
 * A connection is libpq's own PGconn: non-blocking, in pipeline mode (pg_replies.h), used by one thread at a time. What the server
 * reports beside its replies (notices) is dropped, except for warnings, which the caller can ask for. */
#ifndef POSTGRES_PG_CONNECTION_H
#define POSTGRES_PG_CONNECTION_H

#include "rc.h"
#include <libpq-fe.h>

enum { PG_WHY_BYTES = 500, PG_WARNING_BYTES = 200 };

struct pg_connection_settings {
    /* libpq's URI, or its keys and values, such as "service=grapnel". */
    const char *database;
    const char *name;     /* as the server's administrator sees it */
    const char *password; /* NULL: libpq finds one (service file, .pgpass) */
    /* How long all hosts together may take; 0: as long as the connect_timeout of each host, which is 10 s unless `database` sets
     * it. The resolver's time to find an address by its name is not limited. */
    int64_t limit_ms;
    /* How long sent data may stay unacknowledged, unless `database` sets tcp_user_timeout. */
    int unacknowledged_ms;
};

/* The first warning of the server since `text` was emptied. */
struct pg_warning {
    char text[PG_WARNING_BYTES]; /* "": there was none */
};

/* Connects to the first host of the list in `database` that can be written to, each within its part of the limit. Off this
 * machine the server needs a valid certificate, unless `database` sets sslmode. *conn is the caller's to PQfinish(), after
 * GR_REFUSE, too. `warning` (NULL: they are dropped) lives as long as the connection. */
gr_rc pg_connection_open(const struct pg_connection_settings *s,
                         struct pg_warning *warning, PGconn **conn,
                         char why[PG_WHY_BYTES]);

#endif
