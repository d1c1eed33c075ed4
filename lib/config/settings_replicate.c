/* settings_replicate: the section `replicate`: where the databases are replicated to, and when a standby takes over. */
#include "config.h"
#include "settings_types.h"
#include <string.h>
#include <strings.h>

static const char *wrong_database(const char *text)
{
    const char *rest = strstr(text, "://"), *at;

    if (wrong_line(text))
        return wrong_line(text);
    at = rest ? memchr(rest + 3, '@', strcspn(rest + 3, "/?")) : NULL;
    if (strcasestr(text, "password") ||
        (at && memchr(rest + 3, ':', (size_t)(at - rest - 3))))
        return "has a password in it: write it to a password file of "
               "PostgreSQL (passfile=PATH), or use a certificate";
    return NULL;
}

static const struct conf_key replicate_keys[] = {
    KEY(string, settings, replicate.database, "database", NULL,
        "the database, as a connection string or URI of PostgreSQL without a "
        "password: `service=grapnel`, or `host=db1,db2 dbname=grapnel "
        "user=grapnel target_session_attrs=read-write`. Unless it says "
        "`sslmode`, the server's certificate and name are verified "
        "(`verify-full`), except on a loopback address or a socket. `grapnel "
        "replicate init` prints the tables that it needs",
        .check = wrong_database, .form = "connection string"),
    KEY(string, settings, replicate.key, "key", NULL,
        "the key that encrypts what is written there, as `file:PATH`, the same "
        "on each host: base64 of 32 bytes (`openssl rand -base64 32`). Without "
        "it nobody can read the copies, so keep it elsewhere, too",
        .check = wrong_secrets_key, .flags = CONF_SECRET, .form = "secret"),
    KEY(duration, settings, replicate.takeover_after_ms, "takeover_after",
        "15s",
        "a standby takes over when the active process has been silent for so "
        "long. A third of it is how long the active goes on without an "
        "acknowledgement of the database; then it waits, and ingress responds "
        "503. The same on each host",
        .min = 3 * SECOND_MS, .max = HOUR_MS),
    KEY(boolean, settings, replicate.accept_weak, "accept_weak_durability",
        "false",
        "go on although the database has settings with which it can lose what "
        "it has acknowledged, such as no synchronous standby. Then so can "
        "Grapnel"),
    {0},
};

static void check_both(const struct conf_value *v, void *target)
{
    (void)target;
    if (conf_has(v, "database") && !conf_has(v, "key"))
        conf_error_key(v, "database",
                       "replicate needs a `key`: write `openssl rand -base64 "
                       "32` to a file, and set `key: file:PATH`");
    if (conf_has(v, "key") && !conf_has(v, "database"))
        conf_error_key(v, "key", "replicate needs a `database`, too");
}

const struct conf_section settings_replicate_section = {
    .name = "replicate",
    .help = "Replication of the databases of ingress, sequencer and dlqd, so "
            "that nothing acknowledged is lost with a host "
            "([CLUSTER](CLUSTER.md#survive-the-loss-of-a-host)). Without it, "
            "all data is on one host. Changes need a restart.",
    .check = check_both,
    .keys = replicate_keys,
};

void settings_check_replicate(struct conf *c, const struct settings *s)
{
    char host[HOST_NAME_SIZE];

    settings_host(s, host);
    if (s->replicate.database && !*host)
        conf_error_at(c, s->replicate.database,
                      "this host has no name: set `cluster.host`");
}

/* Whether `peers` gives processes to hosts, and none to this one. */
static bool is_left_out(const struct settings *s, const char *host)
{
    bool any = false;

    for (size_t i = 0; i < s->cluster.peer_count; i++) {
        const char *its = s->cluster.peers[i].host;

        if (its && strcmp(its, host) == 0)
            return false;
        any |= its != NULL;
    }
    return any;
}

/* What a host has outside of its databases, and its name. */
void settings_warn_replicate(struct conf *c, const struct settings *s)
{
    char host[HOST_NAME_SIZE];

    settings_host(s, host);
    if (s->replicate.database && is_left_out(s, host))
        conf_warn_at(c, s->replicate.database,
                     "cluster.peers has no process on host %s, which is the "
                     "name of this host: correct `host` there, or set "
                     "cluster.host",
                     host);
    if (s->replicate.database && !s->audit.key)
        conf_warn_at(c, s->replicate.database,
                     "each host makes an audit key of its own, and after a "
                     "takeover `grapnel audit verify` cannot check the rows of "
                     "the other: set `audit.key` to the same file on each "
                     "host");
}
