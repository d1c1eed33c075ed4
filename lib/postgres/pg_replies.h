/* pg_replies: reads the replies to a pipeline of statements, within a time limit. */
#ifndef POSTGRES_PG_REPLIES_H
#define POSTGRES_PG_REPLIES_H

#include "pg_connection.h"

struct pg_limit {
    int64_t silence_ms; /* how long the server may take for each reply */
    /* When all replies must be there, by mono_ms(); INT64_MAX: no limit. */
    int64_t end_ms;
};

/* The first statement of a pipeline that the server refused. */
struct pg_refused {
    /* Its number; -1: the connection is lost. */
    int at;
    char state[6]; /* SQLSTATE */
    /* A function failed, which a trigger or a condition of the user's called, and not our statement itself. */
    bool in_function;
    /* The user lacks a privilege. */
    bool no_privilege;
};

/* Sends what is buffered, and reads the results of `count` statements and the sync behind them. keep[i], if `keep` is not NULL
 * and has a place there, becomes the result of statement i, which is the caller's, unless a statement before it failed. After a
 * statement that the server refused, the rest is read, too, so that the connection can be used again: it may be in a failed transaction.
 * GR_REFUSE: `why` and `refused`. */
gr_rc pg_replies_read(PGconn *conn, int count, PGresult **const *keep,
                      struct pg_limit limit, struct pg_refused *refused,
                      char why[PG_WHY_BYTES]);

#endif
