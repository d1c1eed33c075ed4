/* settings_outbox: the section `outbox`: tables of applications whose rows become events. */
#include "named_url.h"
#include "relay_uri.h"
#include "settings_types.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    NAME_BYTES = 63, /* of a table or a column in PostgreSQL */
    STATUS_BYTES = 50,
    BATCH_MAX = 500,
};

static const char *wrong_file(const char *path)
{
    if (strchr(path, '?'))
        return "has options, which the URI of a SQLite file cannot have: write "
               "sqlite:///path/of/the/file.db";
    if (*path != '/' || path[strlen(path) - 1] == '/')
        return "does not have the absolute path of a file: write "
               "sqlite:///path/of/the/file.db";
    return NULL;
}

static const char *wrong_mysql(const char *text)
{
    struct relay_uri u;
    const char *why = relay_uri_parse(&u, text);

    relay_uri_fini(&u);
    return why;
}

static const char *wrong_database(const char *text)
{
    const char *rest = strstr(text, "://"), *at, *colon;
    bool mysql = strncmp(text, "mysql://", 8) == 0 ||
                 strncmp(text, "mariadb://", 10) == 0;

    if (wrong_line(text))
        return wrong_line(text);
    if (strncmp(text, "sqlite:", 7) == 0)
        return wrong_file(strncmp(text, "sqlite://", 9) == 0 ? text + 9 : "");
    if (!mysql && strncmp(text, "postgresql://", 13) != 0 &&
        strncmp(text, "postgres://", 11) != 0)
        return "is not the URI of a database: write "
               "postgresql://user@host/database, mysql://user@host/database or "
               "sqlite:///path/of/the/file.db";
    rest += 3;
    at = memchr(rest, '@', strcspn(rest, "/?"));
    colon = at ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
    if (colon || strcasestr(rest, "password="))
        return "has a password in it: write the password to a file, and set "
               "`password_file`";
    return mysql ? wrong_mysql(text) : NULL;
}

static const char *wrong_column(const char *text)
{
    if (wrong_line(text))
        return wrong_line(text);
    return strlen(text) > NAME_BYTES ? "is too long: at most 63 bytes" : NULL;
}

static const char *wrong_table(const char *text)
{
    size_t dots = 0;

    for (const char *p = text; *p; p++)
        dots += *p == '.';
    if (wrong_line(text))
        return wrong_line(text);
    if (dots > 1 || *text == '.' || (*text && text[strlen(text) - 1] == '.'))
        return "is not a table: write its name, or schema.name";
    return strlen(text) > 2 * NAME_BYTES + 1 ? "is too long" : NULL;
}

static const char *wrong_status(const char *text)
{
    if (wrong_line(text))
        return wrong_line(text);
    return strlen(text) > STATUS_BYTES ? "is too long: at most 50 bytes" : NULL;
}

static const char *wrong_where(const char *text)
{
    return strchr(text, ';') ? "has a semicolon: write one condition, without "
                               "the word WHERE"
                             : NULL;
}

static const char after_success_says[] =
    "is neither `keep` nor `delete after` and a duration, such as `delete "
    "after 7d`";

/* GR_REFUSE: *why says what is wrong. */
static gr_rc parse_after_success(const char *text, int64_t *ms,
                                 const char **why)
{
    static const char delete_after[] = "delete after ";

    *ms = 0;
    *why = NULL;
    if (strcmp(text, "keep") == 0)
        return GR_OK;
    *why = after_success_says;
    if (strncmp(text, delete_after, strlen(delete_after)) != 0)
        return GR_REFUSE;
    if (conf_parse_duration(text + strlen(delete_after), ms, why) != GR_OK) {
        *why = after_success_says;
        return GR_REFUSE;
    }
    *why = "is too early: keep delivered rows for at least 1m";
    return *ms < MINUTE_MS ? GR_REFUSE : GR_OK;
}

static const char *wrong_after_success(const char *text)
{
    const char *why;
    int64_t ms;

    return parse_after_success(text, &ms, &why) == GR_OK ? NULL : why;
}

int64_t settings_delete_after_ms(const struct relay *r)
{
    const char *why;
    int64_t ms;

    return r->after_success &&
                   parse_after_success(r->after_success, &ms, &why) == GR_OK
               ? ms
               : 0;
}

/* The text of an event: type or workspace. */
static const char *wrong_event_text(const char *text)
{
    if (wrong_line(text))
        return wrong_line(text);
    return strlen(text) > 255 ? "is too long: at most 255 bytes" : NULL;
}

#define COLUMN(MEMBER, NAME, HELP, ...)                  \
    KEY(string, relay, columns.MEMBER, NAME, NULL, HELP, \
        .check = wrong_column, .form = "column", __VA_ARGS__)

static const struct conf_key column_keys[] = {
    COLUMN(id, "id",
           "the primary key, which identifies the row for ever. Default: `id`"),
    COLUMN(payload, "payload", "what is sent. Default: `payload`"),
    COLUMN(status, "status", "the state of the row. Default: `status`"),
    COLUMN(url, "url",
           "the URL of the row, when it has one. Default: `target_url`, if the "
           "table has it; so are those of the following columns"),
    COLUMN(type, "type", "the type of the event. Default: `event_type`"),
    COLUMN(workspace, "workspace",
           "the workspace of the event. Default: `workspace`"),
    COLUMN(endpoint, "endpoint",
           "the only endpoint that gets it. Default: `endpoint`"),
    COLUMN(ordering_key, "ordering_key",
           "the ordering key of the event: endpoints with `ordered: workspace` "
           "get the events of one key in order. Default: `ordering_key`"),
    COLUMN(created_at, "created_at",
           "rows are taken in this order, then by `id`. Default: `created_at`"),
    COLUMN(last_attempt, "last_attempt_at",
           "when the last attempt was made. Default: `last_attempt_at`"),
    COLUMN(next_attempt, "next_attempt_at",
           "when the next attempt is due. Default: `next_attempt_at`"),
    COLUMN(retry_count, "retry_count",
           "how often it was retried. Default: `retry_count`"),
    COLUMN(error, "error_message",
           "why the row failed. Default: `error_message`"),
    COLUMN(event_id, "event_id",
           "gets the id of the event. Default: `grapnel_event_id`"),
    {0},
};

static const struct conf_section columns_section = {
    .name = "columns",
    .help = "The names of the table's columns.",
    .keys = column_keys,
};

static const struct conf_key status_keys[] = {
    KEY(string, relay, statuses.fresh, "new", "NOT_CALLED",
        "the row is to be sent", .check = wrong_status),
    KEY(string, relay, statuses.retrying, "retrying", "PENDING_RETRY",
        "Grapnel has the row and sends it", .check = wrong_status),
    KEY(string, relay, statuses.delivered, "delivered", "SUCCESS",
        "all its deliveries succeeded", .check = wrong_status),
    KEY(string, relay, statuses.failed, "failed", "FAILED_PERMANENTLY",
        "it could not be delivered, or is not a valid event",
        .check = wrong_status),
    {0},
};

static const struct conf_section statuses_section = {
    .name = "statuses",
    .help = "The values of the column `status`.",
    .keys = status_keys,
};

static const char *const body_words[] = {"payload", "event", NULL};

static const struct conf_key relay_keys[] = {
    KEY(string, relay, name, "name", NULL,
        "the name; also the name of the source of its events",
        .check = wrong_name, .flags = CONF_REQUIRED, .form = "name"),
    KEY(string, relay, database, "database", NULL,
        "the URI of the database, without a password: "
        "`postgresql://relay@db.example/app`, or "
        "`postgresql:///?service=app` for a section of pg_service.conf. "
        "Unless it says `sslmode`, the server's certificate and name are "
        "verified (`verify-full`), except on a loopback address or a socket. "
        "`mysql://relay@db.example/app` is MariaDB (10.6 or later) or MySQL "
        "(8.0.1 or later); a server on another machine needs TLS, and its "
        "certificate and name are verified. `?socket=PATH` names a socket, "
        "`?ssl_ca=FILE` the certificates that may sign the server's. "
        "`sqlite:///var/lib/app/app.db` is a file of SQLite on this machine, "
        "with an absolute path; `grapnel-outbox` needs write permission for "
        "the file and its folder",
        .check = wrong_database, .flags = CONF_REQUIRED, .form = "URI"),
    KEY(path, relay, password_file, "password_file", NULL,
        "a file with the password; it is read for each connection"),
    KEY(string, relay, table, "table", "webhook_outbox",
        "the table, or `schema.table`", .check = wrong_table),
    SECTION("columns", &columns_section, "the names of its columns"),
    SECTION("statuses", &statuses_section, "the values of its column status"),
    KEY(string, relay, where, "where", NULL,
        "SQL: only rows for which this holds are taken, such as `tenant_id IS "
        "NOT NULL`",
        .check = wrong_where, .form = "SQL"),
    KEY(string, relay, type, "type", "outbox.row",
        "the type of rows without one", .check = wrong_event_text),
    KEY(string, relay, workspace, "workspace", "default",
        "the workspace of rows without one", .check = wrong_event_text),
    KEY(string, relay, endpoint, "endpoint", NULL,
        "the endpoint of rows without one; rows with a URL need an endpoint, "
        "whose settings apply. Default: all endpoints that are subscribed",
        .check = wrong_event_text, .form = "name of an endpoint"),
    KEY(strings, relay, may_name_urls, "may_name_urls", NULL,
        "patterns of URLs, as those of [producers](#producers): rows may name "
        "a URL that matches one. Default: rows may not name URLs",
        .check = named_url_wrong_pattern, .flags = CONF_FILLED,
        .form = "list of patterns"),
    KEY(string, relay, retry_policy, "retry_policy", "outbox",
        "the retry policy of its events", .check = wrong_name,
        .form = "name of a retry policy"),
    KEY(choice, relay, body, "body", "payload",
        "`payload`: endpoints get the payload as it is in the row; `event`: "
        "they get `{\"id\",\"type\",\"workspace\",\"timestamp\",\"data\"}` "
        "with the payload in `data`",
        .choices = body_words),
    KEY(string, relay, after_success, "after_success", "keep",
        "`keep`, or `delete after 7d`: rows whose event was delivered are "
        "deleted that long after their `last_attempt_at` (`created_at`, if the "
        "table has no such column), at most 500 a second. The relay's user "
        "needs DELETE; `grapnel outbox init` prints the grant and an index",
        .check = wrong_after_success,
        .form = "`keep` or `delete after DURATION`"),
    KEY(int, relay, batch, "batch", "500",
        "how many rows are taken in one transaction, at most", .min = 1,
        .max = BATCH_MAX),
    KEY(duration, relay, poll_ms, "poll", "1s",
        "how often the table is read when no notification comes", .min = 50,
        .max = 5 * MINUTE_MS),
    {0},
};

const struct conf_section settings_relay_section = {
    .name = "relay",
    .help =
        "A table of an application, in which it writes a row in the "
        "transaction of the change that the row is about. `grapnel-outbox` "
        "takes new rows; each becomes one event, whatever is killed. It runs "
        "if this section has a relay. A change of this section needs a restart "
        "of `grapnel-outbox`; other processes reload it.",
    .size = sizeof(struct relay),
    .keys = relay_keys,
};

/* What a file of SQLite does not have. */
static void check_file(struct conf *c, const struct settings *s, size_t i)
{
    const struct relay *r = &s->relays[i];

    if (strchr(r->table, '.'))
        conf_error_at(c, r->table,
                      "a SQLite file has no schemas: write the name of the "
                      "table alone");
    if (r->password_file)
        conf_error_at(c, r->password_file,
                      "a SQLite file has no password: remove `password_file`");
    /* Its rows are not locked while they are taken, so both relays would send all of them. */
    for (size_t k = 0; k < i; k++) {
        const struct relay *other = &s->relays[k];

        if (other->database && strcmp(other->database, r->database) == 0 &&
            strcasecmp(other->table, r->table) == 0 &&
            (!other->where || !r->where || strcmp(other->where, r->where) == 0))
            conf_error_at(c, r->database,
                          "relay %s reads the same table, so each row would be "
                          "sent twice: remove one of them, or set `where` of "
                          "both to different rows",
                          other->name ? other->name : "");
    }
}

/* A row whose state is ambiguous would be sent again for ever, or never get its outcome. */
static void check_statuses(struct conf *c, const struct relay *r)
{
    const char *all[] = {r->statuses.fresh, r->statuses.retrying,
                         r->statuses.delivered, r->statuses.failed};
    static const char *const names[] = {"new", "retrying", "delivered",
                                        "failed"};

    for (size_t i = 1; i < COUNT_OF(all); i++)
        for (size_t k = 0; k < i; k++)
            if (all[i] && all[k] && strcasecmp(all[i], all[k]) == 0) {
                conf_error_at(c, all[i],
                              "is the status of `%s` and of `%s`: each of the "
                              "four statuses needs its own value",
                              names[k], names[i]);
                return;
            }
}

void settings_check_relays(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->relay_count; i++) {
        const struct relay *r = &s->relays[i];
        bool taken = false;

        for (size_t k = 0; r->name && k < s->producer_count; k++)
            taken |= s->producers[k].name &&
                     strcmp(s->producers[k].name, r->name) == 0;
        if (taken || (r->name && settings_source(s, r->name)))
            conf_error_at(c, r->name,
                          "a source or producer has this name; a relay is "
                          "also a source, so choose another name");
        if (i == RELAYS_MAX)
            conf_error_at(c, r->name,
                          "there are too many relays: at most %d are allowed; "
                          "one relay can read a view of several tables",
                          RELAYS_MAX);
        if (r->database && r->table && relay_kind(r) == RELAY_SQLITE)
            check_file(c, s, i);
        check_statuses(c, r);
        if (r->may_name_urls.count && !r->endpoint && !r->columns.endpoint)
            conf_error_at(c, r->may_name_urls.items[0],
                          "rows that name a URL need an endpoint, whose "
                          "settings apply: set `endpoint`");
    }
}
