/* settings: grapnel.yaml, read by every process; one table of keys per section
 * (settings.c) parses, checks, prints and documents it.
 *
 * A `struct settings` never changes once loaded; SIGHUP loads another beside it
 * and swaps. All pointers inside belong to it. */
#ifndef PROTO_SETTINGS_H
#define PROTO_SETTINGS_H

#include "alloc.h"
#include "conf.h" /* struct text_list */
#include "expr.h"
#include "handshake.h"
#include "log.h"
#include "rate.h"
#include "rc.h"
#include "schema.h" /* enum order_lanes */
#include "where.h"

/* One idempotency key: the expressions whose values make it up. */
struct dedupe_key {
    struct expr *parts;
    size_t count;
};

struct dedupe {
    bool none; /* `dedupe: none` */
    struct dedupe_key *keys;
    size_t count;
    int64_t ttl_ms;
    int64_t window_ms; /* 0: off */
    /* How long the digest of what is signed is kept: 0 unset, or TOLERANCE_NONE. */
    int64_t replays_ms;
    struct expr unique; /* only of requests that have it; EXPR_NONE: of all */
};

struct cidr;

/* The endpoint of our own that a source's backfill is: this and its name. */
#define BACKFILL_PREFIX "backfill:"

enum order_by { ORDER_ARRIVAL, ORDER_SEQUENCE, ORDER_TIMESTAMP };

/* In which order a source's events are let go. */
struct order {
    enum order_by by;
    struct expr sequence;
    bool per_type;         /* a stream for each type of a workspace */
    bool start_first;      /* else a stream begins at 1 */
    int64_t tolerance_gap; /* so many missing numbers hold nothing back */
    int64_t buffer;        /* events held in one stream */
    int64_t give_up_after_ms;
    bool observe; /* hold nothing, record what would have been held */
    struct expr timestamp;
    int64_t window_ms; /* with a timestamp: how long each is held */
    char *backfill;    /* URL, a template; NULL: none */
    struct text_list signing_secrets; /* of the backfill's calls … */
    bool allow_private;       /* … which may go to everywhere private … */
    struct cidr *allow_cidrs; /* … or to these only */
    size_t allow_cidr_count;
};

/* Events as moves of an object's state. */
struct state_rules {
    struct expr object, state; /* EXPR_NONE: the source has no states */
    struct text_list initial;
    struct text_list moves; /* "from>to" */
    bool invalid_is_dead;   /* an invalid move is a dead letter */
};

enum scheme {
    SCHEME_HMAC_SHA256,
    SCHEME_HMAC_SHA1,
    SCHEME_HMAC_SHA512,
    SCHEME_ED25519,
    SCHEME_ECDSA_P256,
    SCHEME_RSA_SHA256,
    SCHEME_SHARED_TOKEN, /* the secret itself comes along; nothing is signed */
};

enum verify_encoding { ENCODING_HEX, ENCODING_BASE64 };
enum time_unit { UNIT_S, UNIT_MS, UNIT_RFC3339 };

/* What a secret's text is: the key as it is, base64 or hex of it, the same
 * behind `whsec_` or `whpk_` (which may be missing), base64 of a
 * SubjectPublicKeyInfo, or PEM of a public key or a certificate. */
enum key_encoding {
    KEY_RAW,
    KEY_BASE64,
    KEY_HEX,
    KEY_WHSEC,
    KEY_WHPK,
    KEY_SPKI,
    KEY_PEM,
};

/* How a header holds signatures: one; several with a separator, of which those
 * with `prefix` count; or pairs of key and value. */
enum form_kind { FORM_PLAIN, FORM_LIST, FORM_KV };

struct form {
    enum form_kind kind;
    char separator;
    char *prefix;           /* of each item, or of the only one; NULL: none */
    char *ts_key, *sig_key; /* of kv */
};

enum { TOLERANCE_NONE = -1 };

/* How a source's requests prove who sent them. */
struct verify {
    enum scheme scheme;
    struct text_list headers; /* that carry the signature; the first there */
    struct expr signature;    /* or where else it is */
    struct form form;
    char *prefix;                  /* before it, "" or NULL for none */
    enum verify_encoding encoding; /* of the signature */
    enum key_encoding secret_encoding;
    char *signed_content; /* template: "{body}", "{ts}.{body}" … */
    struct expr time;     /* where {ts} is; EXPR_NONE: in the form, if kv */
    enum time_unit time_unit;
    /* How old, how far ahead: 0 the source's clock_skew, or TOLERANCE_NONE. */
    int64_t past_ms, future_ms;
    struct expr id;          /* {id}; EXPR_NONE: the source's */
    struct expr token;       /* {token} */
    struct expr body_digest; /* SHA-256 of a body that is not signed itself */
    bool refuses_empty_body; /* even if it is signed */
    enum handshake_kind handshake;
};

struct profile;       /* profile.h */
struct signature_key; /* signature.h */

struct source {
    char *name;
    char *provider; /* profile's name */
    const struct profile *profile;
    struct verify verify;        /* the profile's, or the file's for `custom` */
    struct text_list secrets;    /* the keys themselves; none of them empty */
    struct signature_key **keys; /* the same, ready for use; as many */
    int64_t clock_skew_ms;
    char *public_url; /* as the provider knows it, without a query; or NULL */
    char *webhook_id; /* as the provider knows it; or NULL */
    /* EXPR_NONE where unset. */
    struct expr id, delivery_id, type, action, workspace, mode;
    bool batch; /* the body is a list, and each element an event */
    struct dedupe dedupe;
    struct order order;
    struct state_rules states;
    struct text_list forward_headers; /* the profile's event headers */
    struct text_list workspaces;      /* globs it may name; none: all */
    struct rate rate_limit;           /* of each ingress; count 0: none */
};

enum { TOKEN_HASH_BYTES = 32 }; /* SHA-256 */

/* One of our user's own services, that publishes through POST /v1/events. */
struct producer {
    char *name;
    struct text_list
        tokens; /* once they are hashed only a fingerprint of each */
    uint8_t (*token_hashes)[TOKEN_HASH_BYTES];
    struct text_list workspaces, types; /* globs it may name; none: all */
    struct rate rate_limit;
};

enum backoff_kind { BACKOFF_EXPONENTIAL, BACKOFF_FIXED, BACKOFF_SCHEDULE };

/* A set of outcomes that are tried again. Bit n of `status` is status n. */
struct retry_on {
    bool network;
    uint8_t status[600 / 8];
};

struct retry_policy {
    char *name;
    enum backoff_kind backoff;
    int64_t first_wait_ms, max_wait_ms; /* 0 where backoff has no use … */
    double factor;                      /* … for them */
    int64_t *schedule_ms;
    size_t schedule_count;
    bool repeat_last;
    bool jitter_full;        /* jitter: full */
    double jitter_part;      /* jitter: 15% → 0.15; 0 with full or none */
    int64_t max_attempts;    /* 0: does not bind */
    int64_t max_duration_ms; /* 0: does not bind */
    struct retry_on retry_on;
    bool respect_retry_after;
};

struct header {
    char *name, *value;
};

struct cidr {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    int prefix_bits;     /* of those 128 */
};

/* To which an endpoint's URL may lead; none: all. */
enum { PORTS_MAX = 32 };
struct ports {
    uint16_t items[PORTS_MAX];
    size_t count;
};

/* PEM texts; NULL where not set. */
struct tls {
    char *ca; /* trusted instead of the system's authorities */
    char *certificate, *key;
};

struct endpoint_settings {
    char *name;
    char *url;
    struct text_list types, sources, workspaces; /* globs; none: all */
    struct where where;                          /* none: all */
    struct text_list signing_secrets;            /* as written, whsec_… */
    char *method;                                /* POST or PUT */
    struct header *headers;
    size_t header_count;
    struct text_list forward_headers;
    bool allow_private;       /* to everywhere private … */
    struct cidr *allow_cidrs; /* … or to these only */
    size_t allow_cidr_count;
    struct ports allowed_ports;
    struct tls tls;
    bool enabled;
    bool internal; /* of our own: never routed to (settings.backfills) */
    int64_t timeout_ms, connect_timeout_ms;
    int64_t max_in_flight;
    struct rate rate_limit; /* count 0: none */
    bool breaker;
    bool guard;
    enum order_lanes ordered;
    bool on_dead_halt; /* else the lane goes on past a dead letter */
    int64_t disable_after_ms;
    char *retry_policy; /* its name */
    const struct retry_policy *policy;
};

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL };

/* When somebody is told. What it is about: alert_kinds.h. */
struct alert_rule {
    char *name;
    int when;            /* enum alert_when */
    double above, below; /* in units, parts, seconds, bytes; NAN: not set */
    int64_t for_ms;      /* it must be so for this long */
    int64_t window_ms;
    int64_t silent_for_ms;
    int64_t at_least; /* attempts or events, before a rate is judged */
    int severity;     /* enum severity */
    bool enabled;
    struct text_list endpoints, sources; /* globs; none: all */
    struct text_list notify;             /* names; none: all notifiers */
};

/* Exactly one of webhook, email, exec. */
struct notifier {
    char *name;
    char *webhook;                    /* URL, or NULL */
    struct text_list signing_secrets; /* whsec_… */
    bool allow_private;
    struct cidr *allow_cidrs;
    size_t allow_cidr_count;
    bool has_email;
    struct {
        char *server; /* smtp://host:25 or smtps:// */
        char *from;
        struct text_list to;
        char *username, *password; /* or NULL */
    } email;
    struct text_list exec; /* the command and its arguments */
    int64_t timeout_ms;
};

struct route {
    struct text_list sources, types, workspaces, endpoints;
    struct where where;
};

struct settings {
    char *path; /* the file itself, absolute */
    char *state_dir, *run_dir;
    enum log_level log_level;
    bool log_json;
    char *log_errors; /* file; NULL: none */
    int64_t shutdown_grace_ms;
    struct {
        char *host; /* of `listen` */
        int port;
        int64_t max_body_bytes;
        int64_t max_connections;
        int64_t read_timeout_ms;
        int64_t target_delay_ms;
        int64_t archive_keep_ms;
        int64_t archive_max_bytes;
        struct cidr *trusted_proxies;
        size_t trusted_proxy_count;
    } ingress;
    int64_t history_keep_ms, dlq_keep_ms;
    int64_t metrics_interval_ms;
    char *metrics_publish; /* ZeroMQ address */
    struct {
        char *host; /* of `listen` */
        int port;
        struct text_list hosts; /* names that `Host` may have */
        struct text_list tokens;
        int64_t evaluate_ms;
    } console;
    struct alert_rule *alerts; /* the built-in ones too */
    size_t alert_count;
    struct notifier *notifiers;
    size_t notifier_count;
    struct source *sources;
    size_t source_count;
    struct producer *producers;
    size_t producer_count;
    struct endpoint_settings *endpoints;
    size_t endpoint_count;
    /* Who is asked for what is missing: `backfill:SOURCE` for each source that
     * has order.backfill. Their texts belong to the sources. */
    struct endpoint_settings *backfills;
    size_t backfill_count;
    struct route *routes;
    size_t route_count;
    struct retry_policy *policies; /* the built-in ones too */
    size_t policy_count;
    struct endpoint_settings defaults; /* what endpoints leave open */
    struct text_list include;
    /* Lines, as of errors; also about files and folders of this moment. */
    struct text_list warnings;
    struct text_list variables; /* of the environment that the file uses */
};

/* The file to read: `named` on the command line; if that is NULL, $GRAPNEL_CONFIG; if that is
 * not set, /etc/grapnel/grapnel.yaml. Never ./grapnel.yaml: what a command does must not
 * depend on the folder in which it is started. */
const char *settings_path(const char *named);
/* Read and check the file. On errors prints each to `errors` (a line each,
 * `file:line:column: key.path: what is wrong`, the file with its whole path) and
 * returns NULL. Environment and secret files are read here, once. Free with settings_free(). */
struct settings *settings_load(const char *path, struct buf *errors);
/* The same; `unset` gets the names of variables that the file uses and that this
 * process's environment does not have. */
struct settings *settings_load_here(const char *path, struct buf *errors,
                                    struct text_list *unset);
/* Only these top-level keys (ending with NULL), of the file and of what it
 * includes, if `include` is one of them: errors elsewhere, and variables that
 * only other keys use, do not count. The rest is zero, and names in it are not
 * looked up, except retry policies. `retry_policies` brings the built-in ones. */
struct settings *settings_load_part(const char *path, const char *const *keys,
                                    struct buf *errors);
void settings_free(struct settings *s);

/* What a process of this kind ("ingress") would change if it took `fresh` over:
 * keys (see conf_diff) that take effect at once, and those that it reads only at
 * its start. Adds to both lists. */
void settings_compare(const struct settings *running,
                      const struct settings *fresh, const char *kind,
                      struct text_list *changed, struct text_list *restart);
/* Before `fresh` replaces `running`: keep what is read only at a start, so that
 * the settings in force are what the process really uses, and the next
 * comparison says again that a restart is needed. `running` may then only be
 * freed. */
void settings_keep_start_values(struct settings *running,
                                struct settings *fresh);

const struct source *settings_source(const struct settings *s,
                                     const char *name);
const struct producer *settings_producer(const struct settings *s,
                                         const char *name);
/* Whose token this is, in a time that does not tell how near it came; NULL:
 * nobody's. */
const struct producer *settings_token(const struct settings *s,
                                      struct bytes token);
/* Is this address (IPv4 as ::ffff:a.b.c.d) of the network? */
bool network_has(const struct cidr *network, const uint8_t address[16]);

const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name);

/* {"endpoints":[…],"sources":[…],"policies":[…],"alerts":[…],"notifiers":[…],
 * "metrics_interval_ms":N,"metrics_publish":ADDRESS}: names are in the order of
 * the file, the built-in ones too. The caller's. */
struct json_t *settings_names(const struct settings *s);

/* "hmac-sha256" */
const char *settings_scheme_name(enum scheme scheme);
/* The effective configuration as YAML with comments, secrets as "…". */
void settings_print(const struct settings *s, struct buf *out);
/* docs/CONFIGURATION.md, from the same tables. */
void settings_document(struct buf *out);
/* grapnel.yaml(5), from that. */
void settings_manual(struct buf *out);

#endif
