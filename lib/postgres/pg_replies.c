/* pg_replies: reads the replies to a pipeline of statements, within a time limit. */
#include "pg_replies.h"
#include "clock.h"
#include "reason.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static gr_rc lost(const PGconn *conn, char why[PG_WHY_BYTES])
{
    return reason_put(why, PG_WHY_BYTES, "connection lost",
                      PQerrorMessage(conn));
}

static gr_rc late(int64_t limit_ms, char why[PG_WHY_BYTES])
{
    snprintf(why, PG_WHY_BYTES, "the database did not reply within %g s",
             (double)limit_ms / (double)SECOND_MS);
    return GR_REFUSE;
}

/* Sends what is buffered, and waits until a reply is there. */
static gr_rc wait_reply(PGconn *conn, struct pg_limit limit,
                        char why[PG_WHY_BYTES])
{
    int64_t now = mono_ms(), end_ms = now + limit.silence_ms;
    int unsent = 1;

    if (limit.end_ms < end_ms)
        end_ms = limit.end_ms;
    while (unsent || PQisBusy(conn)) {
        struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
        int64_t left_ms = end_ms - mono_ms();

        unsent = PQflush(conn);
        if (unsent < 0)
            return lost(conn, why);
        if (!unsent && !PQisBusy(conn))
            return GR_OK;
        if (unsent)
            fd.events |= POLLOUT;
        if (left_ms <= 0)
            return late(limit.silence_ms, why);
        if (poll(&fd, 1, (int)left_ms) < 0 && errno != EINTR)
            return reason_put(why, PG_WHY_BYTES, "poll", strerror(errno));
        if (fd.revents & (POLLIN | POLLHUP | POLLERR) && !PQconsumeInput(conn))
            return lost(conn, why);
    }
    return GR_OK;
}

/* The next result of the pipeline; the caller's. NULL with GR_OK: the end of a statement's. */
static gr_rc next_result(PGconn *conn, struct pg_limit limit, PGresult **result,
                         char why[PG_WHY_BYTES])
{
    *result = NULL;
    if (wait_reply(conn, limit, why) != GR_OK)
        return GR_REFUSE;
    *result = PQgetResult(conn);
    return GR_OK;
}

static bool is_good(const PGresult *r)
{
    ExecStatusType s = PQresultStatus(r);

    return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK;
}

static void note_refused(const PGresult *r, int at, struct pg_refused *refused,
                         char why[PG_WHY_BYTES])
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *by = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION);
    /* Not its details, which may be the contents of a row. */
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

    (void)reason_put(why, PG_WHY_BYTES, "the database refused a statement",
                     message ? message : PQresultErrorMessage(r));
    refused->at = at;
    snprintf(refused->state, sizeof refused->state, "%s", state ? state : "");
    refused->in_function = PQresultErrorField(r, PG_DIAG_CONTEXT);
    refused->no_privilege = by && strncmp(by, "aclcheck", 8) == 0;
}

gr_rc pg_replies_read(PGconn *conn, int count, PGresult **const *keep,
                      struct pg_limit limit, struct pg_refused *refused,
                      char why[PG_WHY_BYTES])
{
    bool failed = false, synced = false;
    int at = 0;

    *refused = (struct pg_refused){.at = -1};
    while (!synced) {
        PGresult *r;

        if (next_result(conn, limit, &r, why) != GR_OK) {
            refused->at = -1;
            return GR_REFUSE;
        }
        if (!r) { /* the end of one statement */
            if (PQstatus(conn) != CONNECTION_OK) {
                refused->at = -1;
                return lost(conn, why);
            }
            continue;
        }
        if (PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
            synced = true;
        } else if (PQresultStatus(r) == PGRES_PIPELINE_ABORTED) {
            at++;
        } else if (!is_good(r)) {
            if (!failed)
                note_refused(r, at, refused, why);
            failed = true;
            at++;
        } else {
            if (at < count && keep && keep[at] && !failed) {
                *keep[at] = r;
                r = NULL;
            }
            at++;
        }
        PQclear(r);
    }
    return failed ? GR_REFUSE : GR_OK;
}
