/* pg_connection: connects to a PostgreSQL server by libpq, within a time limit of ours. */
#include "pg_connection.h"
#include "alloc.h"
#include "clock.h"
#include "network.h"
#include "reason.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- whether a connection leaves the machine ---- */

/* Each of a list with commas. */
static bool are_local(const char *hosts)
{
    for (;; hosts++) {
        size_t n = strcspn(hosts, ",");

        if (!host_is_local(hosts, n))
            return false;
        hosts += n;
        if (!*hosts)
            return true;
    }
}

/* Whether `database` names only hosts of this machine, and no service, nor the environment, that may
 * name others. */
static bool stays_here(const char *database)
{
    PQconninfoOption *all = PQconninfoParse(database, NULL), *o;
    bool local = !getenv("PGHOST") && !getenv("PGHOSTADDR") &&
                 !getenv("PGSERVICE");

    for (o = all; o && o->keyword; o++)
        if (o->val &&
            ((strcmp(o->keyword, "host") == 0 && !are_local(o->val)) ||
             (strcmp(o->keyword, "hostaddr") == 0 && !are_local(o->val)) ||
             strcmp(o->keyword, "service") == 0))
            local = false;
    PQconninfoFree(all);
    return local;
}

/* ---- the hosts of a list ---- */

/* libpq tries the hosts of a list one after the other, and a silent one would use up the time of all. So
 * each of them gets a connection of its own. */
struct hosts {
    char *host, *hostaddr, *port; /* lists with commas; NULL: not set */
    size_t count;
    int64_t timeout_ms; /* of each; INT64_MAX: no limit */
};

static const char *option(const PQconninfoOption *all, const char *keyword)
{
    for (; all && all->keyword; all++)
        if (strcmp(all->keyword, keyword) == 0)
            return all->val;
    return NULL;
}

static size_t count_items(const char *list)
{
    size_t n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* The item `i` of a list, or its only one; the caller's. NULL: there is no list. */
static char *item(const char *list, size_t i)
{
    size_t n;

    if (!list)
        return NULL;
    if (count_items(list) == 1)
        i = 0;
    for (; i; i--)
        list += strcspn(list, ",") + 1;
    n = strcspn(list, ",");
    return gr_strndup(list, n);
}

/* libpq has rules of its own for lists with empty items, and for those of different lengths: it gets
 * them as they are. */
static bool can_split(const char *list, size_t count)
{
    size_t n = list ? count_items(list) : 1;
    bool full = true;

    for (size_t i = 0; list && i < n; i++) {
        char *one = item(list, i);

        full = full && *one;
        free(one);
    }
    return full && (n == 1 || n == count);
}

static char *copy(const char *text)
{
    return text ? gr_strdup(text) : NULL;
}

/* With what the service file and the environment say, as libpq has read them for `conn`. */
static void read_hosts(PGconn *conn, struct hosts *h)
{
    PQconninfoOption *all = PQconninfo(conn);
    const char *timeout = option(all, "connect_timeout");
    long seconds = timeout ? strtol(timeout, NULL, 10) : 0;

    *h = (struct hosts){.host = copy(option(all, "host")),
                        .hostaddr = copy(option(all, "hostaddr")),
                        .port = copy(option(all, "port")),
                        .count = 1,
                        .timeout_ms = seconds > 0 ? seconds * SECOND_MS
                                                  : INT64_MAX};
    if (h->hostaddr && *h->hostaddr)
        h->count = count_items(h->hostaddr);
    else if (h->host)
        h->count = count_items(h->host);
    if (h->count > 1 &&
        !(can_split(h->host, h->count) && can_split(h->hostaddr, h->count) &&
          can_split(h->port, h->count)))
        h->count = 1;
    PQconninfoFree(all);
}

static void hosts_fini(struct hosts *h)
{
    free(h->host);
    free(h->hostaddr);
    free(h->port);
}

/* ---- warnings ---- */

static void note(void *arg, const PGresult *result)
{
    struct pg_warning *w = arg;
    static const char *const harmless[] = {"NOTICE", "INFO", "LOG", "DEBUG"};
    const char *severity = PQresultErrorField(result,
                                              PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    for (size_t i = 0; severity && i < COUNT_OF(harmless); i++)
        if (strcmp(severity, harmless[i]) == 0)
            return;
    if (w && !*w->text)
        (void)reason_put(w->text, sizeof w->text, "warning of the server",
                         message ? message : "");
}

/* ---- connecting ---- */

/* Keys before dbname are defaults, which `database` may replace; those behind it are ours. `i`: of
 * the hosts; NULL: all. */
static PGconn *start(const struct pg_connection_settings *s,
                     struct pg_warning *warning, const struct hosts *h,
                     size_t i)
{
    char unacknowledged[16];
    char *host = h ? item(h->host, i) : NULL;
    char *hostaddr = h ? item(h->hostaddr, i) : NULL;
    char *port = h ? item(h->port, i) : NULL;
    const char *keys[16], *values[16];
    PGconn *conn;
    int n = 0;

    snprintf(unacknowledged, sizeof unacknowledged, "%d", s->unacknowledged_ms);
#define PARAM(key, value) (keys[n] = (key), values[n++] = (value))
    if (!stays_here(s->database)) {
        PARAM("sslmode", "verify-full");
        PARAM("sslrootcert", "/etc/ssl/certs/ca-certificates.crt");
    }
    /* Of several hosts, the one that can be written to. */
    PARAM("target_session_attrs", "read-write");
    PARAM("connect_timeout", "10");
    PARAM("keepalives_idle", "30");
    PARAM("tcp_user_timeout", unacknowledged);
    PARAM("dbname", s->database);
    PARAM("application_name", s->name);
    PARAM("client_encoding", "UTF8");
    if (s->password)
        PARAM("password", s->password);
    if (host)
        PARAM("host", host);
    if (hostaddr)
        PARAM("hostaddr", hostaddr);
    if (port)
        PARAM("port", port);
    keys[n] = values[n] = NULL;
#undef PARAM
    conn = PQconnectStartParams(keys, values, 1);
    PQsetNoticeReceiver(conn, note, warning);
    free(host);
    free(hostaddr);
    free(port);
    return conn;
}

/* GR_REFUSE: it failed, or the time is up. */
static gr_rc complete(PGconn *conn, int64_t limit_ms, char why[PG_WHY_BYTES])
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    int64_t began_ms = mono_ms();

    while (PQstatus(conn) != CONNECTION_BAD && next != PGRES_POLLING_OK &&
           next != PGRES_POLLING_FAILED) {
        int64_t left_ms = limit_ms - (mono_ms() - began_ms);
        struct pollfd fd = {.fd = PQsocket(conn),
                            .events = next == PGRES_POLLING_READING ? POLLIN
                                                                    : POLLOUT};
        int n;

        if (left_ms <= 0) {
            const char *host = PQhost(conn), *port = PQport(conn);
            char text[200];

            snprintf(text, sizeof text,
                     "host %s, port %s did not reply within %lld ms",
                     host && *host ? host : "(default)", port ? port : "",
                     (long long)limit_ms);
            return reason_put(why, PG_WHY_BYTES, "cannot connect", text);
        }
        n = poll(&fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        if (n < 0 && errno != EINTR)
            return reason_put(why, PG_WHY_BYTES, "poll", strerror(errno));
        if (n > 0)
            next = PQconnectPoll(conn);
    }
    if (PQstatus(conn) != CONNECTION_OK)
        return reason_put(why, PG_WHY_BYTES, "cannot connect",
                          PQerrorMessage(conn));
    if (PQsetnonblocking(conn, 1) != 0 || !PQenterPipelineMode(conn))
        return reason_put(why, PG_WHY_BYTES, "cannot use the connection",
                          PQerrorMessage(conn));
    return GR_OK;
}

static int64_t limit_of_host(const struct pg_connection_settings *s,
                             const struct hosts *h, int64_t began_ms, size_t i)
{
    int64_t left_ms = s->limit_ms - (mono_ms() - began_ms);
    int64_t share_ms = left_ms / (int64_t)(h->count - i);

    return s->limit_ms && share_ms < h->timeout_ms ? share_ms : h->timeout_ms;
}

gr_rc pg_connection_open(const struct pg_connection_settings *s,
                         struct pg_warning *warning, PGconn **conn,
                         char why[PG_WHY_BYTES])
{
    char *all = gr_strdup("");
    int64_t began_ms = mono_ms();
    gr_rc rc = GR_REFUSE;
    struct hosts h;

    *conn = start(s, warning, NULL, 0);
    read_hosts(*conn, &h);
    for (size_t i = 0; rc != GR_OK && i < h.count; i++) {
        char one[PG_WHY_BYTES];

        if (h.count > 1) {
            PQfinish(*conn);
            *conn = start(s, warning, &h, i);
        }
        rc = complete(*conn, limit_of_host(s, &h, began_ms, i), one);
        if (rc != GR_OK) {
            char *more = gr_printf("%s%s%s", all, *all ? "; " : "", one);

            free(all);
            all = more;
        }
    }
    if (rc != GR_OK)
        (void)reason_put(why, PG_WHY_BYTES, all, "");
    free(all);
    hosts_fini(&h);
    return rc;
}
