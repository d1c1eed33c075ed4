/* settings: the contents of grapnel.yaml as structs, and looking things up in them.
 * config.h reads the file.
 *
 * A `struct settings` never changes after it was loaded. SIGHUP loads another one, which
 * replaces it. All pointers inside belong to it. */
#ifndef SETTINGS_SETTINGS_H
#define SETTINGS_SETTINGS_H

#include "alloc.h"
#include "endpoint_settings.h"
#include "expr.h"
#include "log.h"
#include "rate.h"
#include "rc.h"
#include "string_list.h"
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
    /* How long the digest of the signed part is kept: 0 unset, or TOLERANCE_NONE. */
    int64_t replays_ms;
    struct expr
        unique; /* only requests with this field have it; EXPR_NONE: all have it */
};

/* A source's backfill is a hidden endpoint, with this and the source's name as its name. */
#define BACKFILL_PREFIX "backfill:"

enum order_by { ORDER_ARRIVAL, ORDER_SEQUENCE, ORDER_TIMESTAMP };

/* In which order a source's events are released. */
struct order {
    bool suggested; /* by the provider's profile, which fills the rest */
    bool
        or_arrival; /* an event without a number or time is delivered as it arrives; otherwise it is refused */
    enum order_by by;
    struct expr sequence;
    bool per_type;    /* a stream for each type of a workspace */
    bool start_first; /* otherwise a stream begins at 1 */
    int64_t
        tolerance_gap; /* the number of missing events that are tolerated without
                            * buffering */
    int64_t buffer;    /* the largest number of buffered events in one stream */
    int64_t give_up_after_ms;
    bool observe; /* do not buffer; record what would have been buffered */
    struct expr timestamp;
    int64_t window_ms; /* with a timestamp: how long each event is buffered */
    char *backfill;    /* URL, a template; NULL: none */
    struct string_list signing_secrets; /* of the backfill's calls */
    struct allow_private allow_private;
};

/* Events as transitions of an object's state. */
struct state_rules {
    bool suggested; /* by the provider's profile, which fills the rest */
    bool
        or_arrival; /* an event without object or state is delivered; otherwise it is refused */
    struct expr object, state; /* EXPR_NONE: the source has no states */
    struct string_list
        types; /* globs of types that are transitions; empty: all */
    struct string_list initial;
    struct string_list transitions; /* "from>to" */
    bool invalid_is_dead;           /* an invalid transition is a dead letter */
};

enum scheme {
    SCHEME_HMAC_SHA256,
    SCHEME_HMAC_SHA1,
    SCHEME_HMAC_SHA512,
    SCHEME_ED25519,
    SCHEME_ECDSA_P256,
    SCHEME_RSA_SHA256,
    SCHEME_SHARED_TOKEN, /* the request contains the secret itself; it is not signed */
};

enum verify_encoding { ENCODING_HEX, ENCODING_BASE64 };
enum time_unit { UNIT_S, UNIT_MS, UNIT_RFC3339 };

/* How a secret's text holds the key: as it is; as base64 or hex, perhaps after `whsec_` or
 * `whpk_`; as base64 of a SubjectPublicKeyInfo; as PEM of a public key or a certificate. */
enum key_encoding {
    KEY_RAW,
    KEY_BASE64,
    KEY_HEX,
    KEY_WHSEC,
    KEY_WHPK,
    KEY_SPKI,
    KEY_PEM,
};

/* How a header holds signatures: one signature; several with a separator, of which those
 * with `prefix` count; or pairs of key and value. */
enum form_kind { FORM_PLAIN, FORM_LIST, FORM_KV };

struct form {
    enum form_kind kind;
    char separator;
    char *prefix;           /* of each item, or of the only one; NULL: none */
    char *ts_key, *sig_key; /* of kv */
};

enum { TOLERANCE_NONE = -1 };

/* How a provider checks a URL before it trusts it (handshake.h). */
enum handshake_kind {
    HANDSHAKE_NONE,
    HANDSHAKE_ECHO,       /* Slack: the challenge, as plain text */
    HANDSHAKE_HMAC_TOKEN, /* Zoom: its token, and the HMAC of it by the secret */
    HANDSHAKE_PING_PONG,  /* Discord: PONG, or nothing at all */
    HANDSHAKE_HEAD, /* Intercom: 200 to a HEAD request, which is not signed */
};

/* How requests of a source prove who sent them. */
struct verify {
    enum scheme scheme;
    struct string_list
        headers; /* the headers that may carry the signature; the first one
                                 * that is there counts */
    struct expr signature; /* or another place */
    struct form form;
    char *prefix;                  /* the text before it, "" or NULL for none */
    enum verify_encoding encoding; /* of the signature */
    enum key_encoding secret_encoding;
    char *signed_content; /* template: "{body}", "{ts}.{body}" … */
    struct expr
        time; /* where {ts} is; EXPR_NONE: in the form, or in the header if it
                           * is kv */
    enum time_unit time_unit;
    /* The permitted age and advance of {ts}; 0: the source's clock_skew, or TOLERANCE_NONE. */
    int64_t past_ms, future_ms;
    struct expr id;          /* {id}; EXPR_NONE: the source's */
    struct expr token;       /* {token} */
    struct expr body_digest; /* SHA-256 of a body that is not signed itself */
    bool refuses_empty_body; /* for a body that is signed, too */
    enum handshake_kind handshake;
};

/* How a provider lists its events, or its deliveries of them. */
enum listing_auth { LISTING_BEARER, LISTING_BASIC, LISTING_PLAIN };
enum listing_times { LISTING_S, LISTING_MS, LISTING_RFC3339 };
enum listing_paging {
    LISTING_ONE_PAGE,
    LISTING_LAST_ID, /* `parameter` gets the id of the last event */
    LISTING_LINK,    /* the header Link has the next page's URL */
    LISTING_OFFSET,  /* `parameter` gets the number of events before it */
    LISTING_CURSOR,  /* `parameter` gets what the page has at `cursor` */
};
struct provider_list {
    char *url;          /* template of {from} and {to}; NULL: none */
    int times;          /* enum listing_times: form of {from} and {to} */
    int auth;           /* enum listing_auth */
    char *auth_header;  /* NULL: Authorization */
    struct expr events; /* EXPR_NONE: the page itself is the list */
    struct expr id;     /* in an event of it; EXPR_NONE: the source's `id` */
    struct expr time;   /* EXPR_NONE: nothing is known of the provider */
    int paging;         /* enum listing_paging */
    char *parameter;
    struct expr more, cursor;
    char *event_url; /* template of {list} and {key}; NULL: the list has all */
    struct expr key, headers, body;
    char *keeps; /* for documents: how long the provider lists an event */
};

/* `reconcile` of a source. */
struct reconcile {
    int64_t every_ms; /* 0: the source is not reconciled */
    char *url;        /* NULL: that of its list */
    char *token_file;
    int64_t grace_ms, look_back_ms, pause_ms, timeout_ms;
    struct provider_list list; /* without `time`: that of the profile */
};

struct profile;       /* profile.h */
struct signature_key; /* signature.h */

struct source {
    char *name;
    char *provider; /* profile's name */
    const struct profile *profile;
    struct verify verify; /* of the profile, or of the file for `custom` */
    struct string_list secrets; /* the keys themselves; none is empty */
    struct signature_key *
        *keys; /* the same keys, ready for use, in the same order */
    int64_t clock_skew_ms;
    char *public_url; /* as the provider knows it, without a query; or NULL */
    char *webhook_id; /* as the provider knows it; or NULL */
    /* EXPR_NONE where unset. */
    struct expr id, delivery_id, type, action, workspace, mode;
    bool batch; /* the body is a list, and each element is an event */
    struct dedupe dedupe;
    struct order order;
    struct state_rules states;
    struct string_list forward_headers; /* the profile's event headers */
    struct string_list
        workspaces; /* globs of workspaces that it may name; empty: all */
    struct rate rate_limit; /* in each ingress process; count 0: no limit */
    struct reconcile reconcile;
};

enum { TOKEN_HASH_BYTES = 32 }; /* SHA-256 */

/* A service of the user that publishes through POST /v1/events. */
struct producer {
    char *name;
    struct string_list
        tokens; /* when they have been hashed, only a fingerprint of each */
    uint8_t (*token_hashes)[TOKEN_HASH_BYTES];
    struct string_list workspaces,
        types; /* globs of workspaces that it may name; empty:
                                           * all */
    struct string_list may_name_urls; /* patterns (named_url.h); empty: none */
    bool check_schema;         /* its events have to fit their type's schema */
    bool refuse_unknown_types; /* … and to have a type of the catalogue */
    struct rate rate_limit;
};

/* The columns of an outbox table that a relay uses: the member, the key, the usual name. */
#define RELAY_COLUMNS(C)                                  \
    C(id, "id", "id")                                     \
    C(payload, "payload", "payload")                      \
    C(status, "status", "status")                         \
    C(url, "url", "target_url")                           \
    C(type, "type", "event_type")                         \
    C(workspace, "workspace", "workspace")                \
    C(endpoint, "endpoint", "endpoint")                   \
    C(ordering_key, "ordering_key", "ordering_key")       \
    C(created_at, "created_at", "created_at")             \
    C(last_attempt, "last_attempt_at", "last_attempt_at") \
    C(next_attempt, "next_attempt_at", "next_attempt_at") \
    C(retry_count, "retry_count", "retry_count")          \
    C(error, "error_message", "error_message")            \
    C(event_id, "event_id", "grapnel_event_id")

enum relay_body { RELAY_BODY_PAYLOAD, RELAY_BODY_EVENT };

/* An application's table whose rows become events: an item of `outbox`. */
struct relay {
    char *name; /* also the source of its events */
    char *database, *password_file, *table;
    struct { /* NULL: the usual name, if the table has it */
#define C(MEMBER, key, usual) char *MEMBER;
        RELAY_COLUMNS(C)
#undef C
    } columns;
    struct {
        char *fresh, *retrying, *delivered, *failed;
    } statuses;
    char *where;                       /* SQL; NULL: all rows */
    char *type, *workspace, *endpoint; /* of rows whose column is empty */
    struct string_list may_name_urls;  /* patterns (named_url.h) */
    char *retry_policy;
    int body;                /* enum relay_body */
    char *after_success;     /* as written */
    int64_t delete_after_ms; /* of delivered rows; 0: they are kept */
    int64_t batch, poll_ms;
    struct producer producer; /* what its events may do; borrows from above */
};

enum { RELAYS_MAX = 8 };

/* The kind of the relay's database, as its URI says. */
enum relay_kind { RELAY_POSTGRES, RELAY_SQLITE, RELAY_MARIADB };
enum relay_kind relay_kind(const struct relay *r);

/* A process that others reach over the network. */
/* The name of a host, with a 0. */
enum { HOST_NAME_SIZE = 65 };

struct cluster_peer {
    char *name;
    char *host;    /* of a name with several instances: which one; else NULL */
    char *address; /* host:port; it has the next two ports, too */
    struct string_list keys; /* public, 64 digits; it is reached by the first */
};

enum { AUDIT_KEY_MIN_BYTES = 32 };

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL };

/* A rule of `alerts`. alert_kinds.h lists what it may be about. */
struct alert_rule {
    char *name;
    int when;            /* enum alert_when */
    double above, below; /* in units, parts, seconds, bytes; NAN: not set */
    int64_t for_ms;      /* the condition must hold for this long */
    int64_t window_ms;
    int64_t silent_for_ms;
    int64_t every_ms; /* of dead letters: at most one alert in this time */
    int64_t at_least; /* the number of attempts or events that a rate needs */
    int severity;     /* enum severity */
    bool enabled;
    struct string_list endpoints, sources; /* globs; empty: all */
    struct string_list notify;             /* names; empty: all notifiers */
};

/* Exactly one of webhook, email, exec. */
struct notifier {
    char *name;
    char *webhook;                      /* URL, or NULL */
    struct string_list signing_secrets; /* whsec_… */
    struct allow_private allow_private;
    bool has_email;
    struct {
        char *server; /* smtp://host:25 or smtps:// */
        char *from;
        struct string_list to;
        char *username, *password; /* or NULL */
    } email;
    struct string_list exec; /* the command and its arguments */
    int64_t timeout_ms;
};

/* Which deliveries of an endpoint leave before others. */
enum priority {
    PRIORITY_UNCHOSEN, /* normal */
    PRIORITY_HIGH,
    PRIORITY_NORMAL,
    PRIORITY_LOW,
    PRIORITIES,
};

/* The name of a priority, as a user writes it; that of PRIORITY_UNCHOSEN is "normal". */
const char *priority_name(enum priority priority);
/* PRIORITY_UNCHOSEN: there is no priority of this name. */
enum priority priority_named(const char *name);

/* How hard to try a delivery, and how early, as a route or a producer's event chooses it. What is
 * NULL or 0 is not chosen. */
struct retry_choice {
    char *policy; /* its name */
    int64_t max_attempts;
    int64_t expires_in_ms; /* after the event was received */
    enum priority priority;
};

struct route {
    struct string_list sources, types, workspaces, endpoints;
    struct where where;
    struct retry_choice choice;
};

struct settings {
    char *path; /* the file itself, absolute */
    char *state_dir, *run_dir;
    enum log_level log_level;
    bool log_json;
    char *log_errors; /* a file; NULL: none */
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
    /* Base64 of 32 bytes each; sealed.h makes a key ring of them. */
    struct string_list secrets_keys;
    int64_t history_keep_ms, dlq_keep_ms;
    struct {
        int64_t max, ttl_ms;
    } temporary;
    int64_t metrics_interval_ms;
    char *metrics_publish; /* ZeroMQ address */
    struct {
        char *host; /* of `listen` */
        int port;
        struct string_list hosts; /* names that the header `Host` may have */
        struct string_list tokens;
        int64_t evaluate_ms;
        struct tls tls; /* without `ca` */
        char *pages;    /* folder; NULL: the built-in pages */
        struct {
            char *name, *colour; /* "#rrggbb" */
            char *url; /* of the console, for its users; NULL: by `listen` */
            struct string_list origins; /* of pages that may embed it */
        } portal;
    } console;
    struct { /* what the tokens of one workspace may use together */
        int64_t endpoints, takes, streams;
        struct rate tests, requests, changes;
    } tenants;
    struct {       /* the export of traces and metrics */
        char *url; /* NULL: off */
        char *ca;  /* PEM, or NULL */
        char *service;
        struct header_list headers;
        bool traces, metrics;
        double sample; /* 0 to 1 */
        int64_t interval_ms, timeout_ms;
    } telemetry;
    struct {
        char *key; /* NULL: the file state_dir/audit.key */
        struct string_list old_keys, notify;
    } audit;
    struct {        /* processes on several hosts */
        char *keys; /* the folder of secret keys */
        char *host; /* the name of this host in `peers`; NULL: the system's */
        struct cluster_peer *peers; /* none: all are on one host */
        size_t peer_count;
    } cluster;
    struct {            /* copies of the stores on other hosts */
        char *database; /* libpq; NULL: off */
        char *key;      /* base64 of 32 bytes */
        int64_t takeover_after_ms;
        bool accept_weak; /* durability of the engine */
    } replicate;
    struct alert_rule *alerts; /* the built-in ones too */
    size_t alert_count;
    struct notifier *notifiers;
    size_t notifier_count;
    struct source *sources;
    size_t source_count;
    struct producer *producers;
    size_t producer_count;
    struct relay *relays;
    size_t relay_count;
    struct endpoint_settings *endpoints;
    size_t endpoint_count;
    /* The endpoints of backfills: `backfill:SOURCE` for each source that has
     * order.backfill. Their strings belong to the sources. */
    struct endpoint_settings *backfills;
    size_t backfill_count;
    struct route *routes;
    size_t route_count;
    struct retry_policy *policies; /* the built-in ones too */
    size_t policy_count;
    struct endpoint_settings defaults; /* what endpoints leave open */
    struct string_list include;
    /* Lines like those of errors; also about files and folders as they are at the time of
     * loading. */
    struct string_list warnings;
    struct string_list
        variables; /* variables of the environment that the file uses */
};

const struct source *settings_source(const struct settings *s,
                                     const char *name);
/* The producer of this name, or what the events of the relay of this name may do. */
const struct producer *settings_producer(const struct settings *s,
                                         const char *name);
const struct relay *settings_relay(const struct settings *s, const char *name);
/* The producer of this token; NULL: there is none. The time that it takes does not reveal
 * how similar the token is to a valid one. */
const struct producer *settings_token(const struct settings *s,
                                      struct bytes token);

/* Whether a name has the form of an endpoint that was made at run time, which no file declares
 * and only the sequencer knows: `ep_` and a ULID. */
#define MANAGED_ID_PREFIX "ep_"
bool endpoint_id_valid(const char *name);
const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name);
const struct retry_policy *settings_policy(const struct settings *s,
                                           const char *name);
/* The time limit of an attempt for this endpoint with this retry policy. */
int64_t settings_timeout_ms(const struct endpoint_settings *endpoint,
                            const struct retry_policy *policy);

/* {"endpoints":[…],"sources":[…],"policies":[…],"alerts":[…],"notifiers":[…],
 * "metrics_interval_ms":N,"metrics_publish":ADDRESS}: names are in the order of the file,
 * with the built-in ones. The caller owns it. */
struct json_t *settings_names(const struct settings *s);

/* Whether the file does not say where a signature is. */
bool verify_unset(const struct verify *v);
void verify_copy(struct verify *to, const struct verify *from);

#endif
