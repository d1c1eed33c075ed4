/* settings_types: what values of grapnel.yaml may be, beyond conf's own types;
 * and what is wrong with a text, as a static sentence or NULL. */
#ifndef PROTO_SETTINGS_TYPES_H
#define PROTO_SETTINGS_TYPES_H

#include "clock.h"
#include "settings.h"

/* What a table of keys says: where a key's value goes. */
#define AT(type, field)    .offset = offsetof(struct type, field)
#define COUNT(type, field) .count_offset = offsetof(struct type, field)

#define LONG_MS (3650 * DAY_MS)

/* The count of a list at `target`. */
void *settings_count_at(const struct conf_key *k, const void *target);
/* For a type whose value is a pointer that is freed. */
bool settings_unset_pointer(const struct conf_key *k, const void *target);
void settings_fini_pointer(const struct conf_key *k, void *target);

extern const struct conf_type settings_as_tolerance; /* TOLERANCE_NONE */
extern const struct conf_type settings_as_expr;      /* struct expr */
extern const struct conf_type settings_as_durations; /* int64_t *, count */
extern const struct conf_type settings_as_listen;    /* char *host, port */
extern const struct conf_type settings_as_jitter;    /* struct retry_policy */
extern const struct conf_type settings_as_retry_on;  /* struct retry_on */
extern const struct conf_type settings_as_headers; /* struct header *, count */
extern const struct conf_type
    settings_as_private;                          /* struct endpoint_settings */
extern const struct conf_type settings_as_keys;   /* struct dedupe */
extern const struct conf_type settings_as_dedupe; /* the same, with section */
extern const struct conf_type settings_as_where;  /* struct where */
extern const struct conf_type settings_as_url;    /* char * */

/* settings_process.c, _sources.c, _endpoints.c, _policies.c */
extern const struct conf_section settings_log_section;
extern const struct conf_section settings_ingress_section;
extern const struct conf_section settings_history_section;
extern const struct conf_section settings_dlq_section;
extern const struct conf_section settings_metrics_section;
extern const struct conf_section settings_console_section;
extern const struct conf_section settings_source_section;
extern const struct conf_section settings_defaults_section;
extern const struct conf_section settings_endpoint_section;
extern const struct conf_section settings_route_section;
extern const struct conf_section settings_policy_section;
extern const struct conf_section settings_dedupe; /* struct dedupe */
extern const char settings_built_in_policies[];
extern const struct conf_type settings_as_rate;  /* struct rate */
extern const struct conf_type settings_as_ports; /* struct ports */

/* The port that a URL leads to; only of one that wrong_url() takes. */
int url_port(const char *url);
bool ports_has(const struct ports *ports, int port);
/* The first certificate is this key's. Both were taken by wrong_pem_…(). */
bool pem_pair(const char *certificate, const char *key);

extern const struct conf_type settings_as_networks; /* struct cidr *, count */

/* "10.0.0.0/8", into `c`. */
const char *wrong_network(const char *text, struct cidr *c);
void network_print(const struct cidr *c, struct buf *out);

extern const struct conf_section settings_producer_section;
/* Hash and forget the tokens of all producers. */
void settings_hash_tokens(struct producer *producers, size_t count);
extern const struct conf_type settings_as_order_private; /* struct order */

/* settings_order.c: sections of a source. */
extern const struct conf_section settings_order_section;  /* struct order */
extern const struct conf_section settings_states_section; /* state_rules */

/* settings_alerts.c */
extern const struct conf_section settings_alert_section;
extern const struct conf_section settings_notifier_section;
extern const char settings_built_in_alerts[];
/* settings_across.c: what must hold across sections. */

/* The first `declared` are the file's; the rest is built in. */
void settings_check_policies(struct conf *c, const struct settings *s,
                             size_t declared);
void settings_check_across(struct conf *c, const struct settings *s,
                           size_t declared_alerts);
/* settings_path.c: if `path` is the default one and missing, a line that says how to name
 * another. */
void settings_put_path_hint(const char *path, struct buf *out);
/* settings_warnings.c: what is allowed and likely a mistake. */
void settings_warn(struct conf *c, const struct settings *s);
/* settings_matches.c. Only without errors: names and lists are whole. */
void settings_warn_matches(struct conf *c, const struct settings *s);
/* A declared one wins over a built-in one of its name. */
void settings_drop_hidden(const struct conf_section *section, void *items,
                          size_t declared, size_t *count);

const char *wrong_publish(const char *text);
const char *wrong_host_name(const char *text); /* without a port */

const char *wrong_name(const char *text);
const char *wrong_name_glob(const char *text);
const char *wrong_line(const char *text);
const char *wrong_url(const char *text);
const char *wrong_public_url(const char *text);
const char *wrong_url_template(const char *text);
const char *wrong_move(const char *text);
const char *wrong_method(const char *text);
const char *wrong_header_token(const char *text);
const char *wrong_header_name(const char *text);
const char *wrong_forward_header(const char *text);
const char *wrong_signing_secret(const char *text);
const char *wrong_pem_certificate(const char *text);
const char *wrong_pem_key(const char *text);
const char *wrong_template(const char *text);
const char *wrong_run_dir(const char *path);

#endif
