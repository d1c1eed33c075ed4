/* settings: what grapnel.yaml says, as structs; and looking things up in them. config.h
 * reads the file.
 *
 * A `struct settings` never changes once loaded; SIGHUP loads another beside it
 * and swaps. All pointers inside belong to it. */
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
    /* How long the digest of what is signed is kept: 0 unset, or TOLERANCE_NONE. */
    int64_t replays_ms;
    struct expr unique; /* only of requests that have it; EXPR_NONE: of all */
};

/* The endpoint of our own that a source's backfill is: this and its name. */
#define BACKFILL_PREFIX "backfill:"

enum order_by { ORDER_ARRIVAL, ORDER_SEQUENCE, ORDER_TIMESTAMP };

/* In which order a source's events are released. */
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
    struct string_list signing_secrets; /* of the backfill's calls */
    struct allow_private allow_private;
};

/* Events as moves of an object's state. */
struct state_rules {
    struct expr object, state; /* EXPR_NONE: the source has no states */
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

/* What a provider asks for before it trusts a URL (handshake.h). */
enum handshake_kind {
    HANDSHAKE_NONE,
    HANDSHAKE_ECHO,       /* Slack: the challenge, as plain text */
    HANDSHAKE_HMAC_TOKEN, /* Zoom: its token, and its HMAC by our secret */
    HANDSHAKE_PING_PONG,  /* Discord: PONG, or nothing at all */
    HANDSHAKE_HEAD,       /* Intercom: 200 to a HEAD, which nobody signs */
};

/* How a source's requests prove who sent them. */
struct verify {
    enum scheme scheme;
    struct string_list headers; /* that carry the signature; the first there */
    struct expr signature;      /* or where else it is */
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
    struct string_list secrets;  /* the keys themselves; none of them empty */
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
    struct string_list forward_headers; /* the profile's event headers */
    struct string_list workspaces;      /* globs it may name; none: all */
    struct rate rate_limit;             /* of each ingress; count 0: none */
};

enum { TOKEN_HASH_BYTES = 32 }; /* SHA-256 */

/* One of our user's own services, that publishes through POST /v1/events. */
struct producer {
    char *name;
    struct string_list
        tokens; /* once they are hashed only a fingerprint of each */
    uint8_t (*token_hashes)[TOKEN_HASH_BYTES];
    struct string_list workspaces, types; /* globs it may name; none: all */
    struct rate rate_limit;
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
    struct string_list endpoints, sources; /* globs; none: all */
    struct string_list notify;             /* names; none: all notifiers */
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

struct route {
    struct string_list sources, types, workspaces, endpoints;
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
        struct string_list hosts; /* names that `Host` may have */
        struct string_list tokens;
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
     * has order.backfill. Their strings belong to the sources. */
    struct endpoint_settings *backfills;
    size_t backfill_count;
    struct route *routes;
    size_t route_count;
    struct retry_policy *policies; /* the built-in ones too */
    size_t policy_count;
    struct endpoint_settings defaults; /* what endpoints leave open */
    struct string_list include;
    /* Lines, as of errors; also about files and folders of this moment. */
    struct string_list warnings;
    struct string_list variables; /* of the environment that the file uses */
};

const struct source *settings_source(const struct settings *s,
                                     const char *name);
const struct producer *settings_producer(const struct settings *s,
                                         const char *name);
/* Whose token this is, in a time that does not tell how near it came; NULL:
 * nobody's. */
const struct producer *settings_token(const struct settings *s,
                                      struct bytes token);

const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name);

/* {"endpoints":[…],"sources":[…],"policies":[…],"alerts":[…],"notifiers":[…],
 * "metrics_interval_ms":N,"metrics_publish":ADDRESS}: names are in the order of
 * the file, the built-in ones too. The caller's. */
struct json_t *settings_names(const struct settings *s);

/* Nothing is said of where a signature is. */
bool verify_unset(const struct verify *v);
void verify_copy(struct verify *to, const struct verify *from);

#endif
