/* settings_types: the kinds of values of grapnel.yaml beyond those of conf.h, and the
 * functions that say what is wrong with a text: a static sentence, or NULL. Only files of
 * lib/config use it, and proto, which checks the endpoint settings that it receives. */
#ifndef CONFIG_SETTINGS_TYPES_H
#define CONFIG_SETTINGS_TYPES_H

#include "clock.h"
#include "conf.h"
#include "settings.h"

/* One row of a table of keys:
 *
 *   KEY(duration, settings, shutdown_grace_ms, "shutdown_grace", "20s", "how long …",
 *       .min = 0, .max = HOUR_MS)
 *
 * A value of this kind (conf_as_duration) is stored in this member of this struct. Then
 * follow the key, its default as a user would write it (NULL: none), its meaning, and the
 * other members of a struct conf_key. */
#define KEY(KIND, TYPE, MEMBER, NAME, DEFAULT, HELP, ...)             \
    {                                                                 \
        .name = NAME, .type = &conf_as_##KIND,                        \
        .offset = offsetof(struct TYPE, MEMBER), .fallback = DEFAULT, \
        .help = HELP, __VA_ARGS__                                     \
    }
/* The second target of a row: a list's count, the port of an address. */
#define COUNT(TYPE, MEMBER) .count_offset = offsetof(struct TYPE, MEMBER)
/* A section whose keys go into the struct around it. */
#define SECTION(NAME, KEYS, HELP, ...)                                     \
    {                                                                      \
        .name = NAME, .type = &conf_as_map, .section = KEYS, .help = HELP, \
        __VA_ARGS__                                                        \
    }
/* A list of sections, each a struct of its own. */
#define LIST(TYPE, MEMBER, COUNT_MEMBER, NAME, ITEM, HELP)                  \
    {                                                                       \
        .name = NAME, .type = &conf_as_maps,                                \
        .offset = offsetof(struct TYPE, MEMBER), COUNT(TYPE, COUNT_MEMBER), \
        .section = ITEM, .help = HELP                                       \
    }

#define LONG_MS (3650 * DAY_MS)

/* ---- kinds of values, beyond those of conf.h, and their targets ---- */

/* settings_types.c */
extern const struct conf_type conf_as_rate; /* struct rate */

/* settings_addresses.c */
extern const struct conf_type conf_as_url;           /* char * */
extern const struct conf_type conf_as_listen;        /* char *host, port */
extern const struct conf_type conf_as_networks;      /* struct cidr *, count */
extern const struct conf_type conf_as_headers;       /* struct header_list */
extern const struct conf_type conf_as_allow_private; /* struct allow_private */

/* settings_exprs.c */
extern const struct conf_type conf_as_expr;  /* struct expr */
extern const struct conf_type conf_as_where; /* struct where */
/* Reads one expression; false: it has reported what is wrong. */
bool settings_read_expr(const struct conf_value *v, struct expr *e);
void settings_print_expr(struct buf *out, const struct expr *e);

/* settings_sources.c, settings_verify.c */
extern const struct conf_type
    conf_as_dedupe; /* struct dedupe, by its section */
/* `suggested`, or struct order and struct state_rules by their sections */
extern const struct conf_type conf_as_order, conf_as_states;
extern const struct conf_type
    conf_as_verify; /* struct verify, by its section */
extern const struct conf_type conf_as_tolerance; /* int64_t: TOLERANCE_NONE */

/* Kinds of endpoint settings that are written like another kind. */
#define conf_as_policy conf_as_string
#define conf_as_tls    conf_as_map

/* The count of a list at `target`. */
void *settings_count_at(const struct conf_key *k, const void *target);
/* For a kind whose value is a pointer to free. */
bool settings_unset_pointer(const struct conf_key *k, const void *target);
void settings_fini_pointer(const struct conf_key *k, void *target);

/* ---- sections ---- */

extern const struct conf_section settings_root_section; /* config.c */

/* settings_process.c */
extern const struct conf_section settings_log_section;
extern const struct conf_section settings_ingress_section;
extern const struct conf_section settings_history_section;
extern const struct conf_section settings_dlq_section;
extern const struct conf_section settings_temporary_section;
extern const struct conf_section settings_metrics_section;
extern const struct conf_section settings_console_section;
extern const struct conf_section settings_audit_section;
extern const struct conf_section settings_tenants_section;
extern const struct conf_section settings_telemetry_section;

/* settings_sources.c */
extern const struct conf_section settings_source_section;
extern const struct conf_section settings_dedupe; /* struct dedupe */
extern const struct conf_section order_section;   /* struct order */
extern const struct conf_section states_section;  /* struct state_rules */

/* settings_verify.c */
extern const struct conf_section settings_verify; /* struct verify */
void settings_verify_forget(struct verify *v);
/* With the profile filled in: checks that the secrets fit the scheme and that it has all
 * that it needs. Makes source->keys. */
void settings_check_verify(const struct conf_value *v, struct source *s);
void settings_forget_keys(struct source *s);

/* settings_producers.c */
extern const struct conf_section settings_producer_section;
/* Hashes the tokens of all producers, and forgets them. */
void settings_hash_tokens(struct producer *producers, size_t count);

/* settings_reconcile.c */
extern const struct conf_section settings_reconcile; /* struct reconcile */
extern const struct conf_section settings_listing;   /* struct provider_list */
/* With the profile filled in: what a table cannot express. */
void settings_check_reconcile(const struct conf_value *v,
                              const struct source *s);

/* settings_outbox.c */
extern const struct conf_section settings_relay_section;
/* The names and patterns of relays, checked with those of other sections. */
void settings_check_relays(struct conf *c, const struct settings *s);
/* What `after_success` says; 0: rows are kept. */
int64_t settings_delete_after_ms(const struct relay *r);

/* settings_endpoints.c */
extern const struct conf_section settings_defaults_section;
extern const struct conf_section settings_endpoint_section;
extern const struct conf_section settings_route_section;
extern const char *const settings_transport_words[]; /* enum transport */
extern const char *const settings_ordered_words[];   /* enum order_lanes */
extern const char
    *const settings_trace_context_words[]; /* enum trace_headers */
extern const char
    *const settings_retry_choice_words[]; /* enum retry_choice_rule */
/* A section's check: `target` is a struct tls with a certificate and its key, or neither. */
void settings_check_tls(const struct conf_value *v, void *target);

/* settings_cluster.c */
extern const struct conf_section settings_cluster_section;
/* Addresses and keys that two peers have. */
void settings_check_cluster(struct conf *c, const struct settings *s);

/* settings_replicate.c */
extern const struct conf_section settings_replicate_section;
void settings_check_replicate(struct conf *c, const struct settings *s);
void settings_warn_replicate(struct conf *c, const struct settings *s);

/* settings_policies.c */
extern const struct conf_section settings_policy_section;
extern const char *const settings_backoff_words[]; /* enum backoff_kind */
extern const char settings_built_in_policies[];

/* settings_alerts.c */
extern const struct conf_section settings_alert_section;
extern const struct conf_section settings_notifier_section;
extern const char settings_built_in_alerts[];

/* ---- settings_checks.c: across sections ---- */

/* The first `declared` rules are those of the file; the others are built in. */
void settings_check_policies(struct conf *c, const struct settings *s,
                             size_t declared);
/* Reports a name that is not one of the policies, with the nearest one; NULL is allowed. */
void settings_check_policy_name(struct conf *c, const struct settings *s,
                                const char *name);
void settings_check_across(struct conf *c, const struct settings *s,
                           size_t declared_alerts);
/* A declared policy replaces a built-in one of its name. */
void settings_drop_hidden(const struct conf_section *section, void *items,
                          size_t declared, size_t *count);
/* Warns about what is allowed but probably a mistake. */
void settings_warn(struct conf *c, const struct settings *s);

/* ---- what is wrong with a string: a static sentence, or NULL ---- */

/* settings_types.c */
const char *wrong_name(const char *text);
const char *wrong_name_glob(const char *text);
const char *wrong_line(const char *text);
const char *wrong_method(const char *text);
const char *wrong_run_dir(const char *path);
const char *wrong_secrets_key(const char *text);
const char *wrong_template(const char *text);
const char *wrong_transition(const char *text);

/* settings_addresses.c */
const char *wrong_url(const char *text);
const char *wrong_public_url(const char *text);
const char *wrong_url_template(const char *text);
const char *wrong_publish(const char *text);
const char *wrong_origin(const char *text);       /* as browsers write it */
const char *wrong_host_name(const char *text);    /* without a port */
const char *wrong_peer_address(const char *text); /* with one */

/* settings_endpoints.c */
const char *wrong_header_token(const char *text);
const char *wrong_forward_header(const char *text);
const char *wrong_signing_secret(const char *text);
const char *wrong_pem_certificate(const char *text);
const char *wrong_pem_key(const char *text);

#endif
