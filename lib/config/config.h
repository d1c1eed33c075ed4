/* config: reads grapnel.yaml into a `struct settings`, and checks, prints, compares and
 * documents it, all from one table of keys per section. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "settings.h"

/* The file to read: `named` on the command line, else $GRAPNEL_CONFIG, else
 * /etc/grapnel/grapnel.yaml. Never ./grapnel.yaml: what a command does must not depend on
 * the folder in which it is started. */
const char *settings_path(const char *named);
/* Reads and checks the file. On errors it prints each to `errors` (a line each,
 * `file:line:column: key.path: what is wrong`, the file with its absolute path) and returns
 * NULL. Environment and secret files are read here, once. Free the result with
 * settings_free(). */
struct settings *settings_load(const char *path, struct buf *errors);
/* The same; `unset` gets the names of variables that the file uses and that the environment
 * of this process does not have. */
struct settings *settings_load_here(const char *path, struct buf *errors,
                                    struct string_list *unset);
/* Reads only these top-level keys (ending with NULL) of the file, and of the files that it
 * includes if `include` is one of them. Errors elsewhere, and variables that only other
 * keys use, do not count. The rest is zero, and names are not looked up, except those of
 * retry policies. `retry_policies` adds the built-in ones. */
struct settings *settings_load_part(const char *path, const char *const *keys,
                                    struct buf *errors);
void settings_free(struct settings *s);

/* Lists what would change in a process of this kind ("ingress") if it loaded `fresh`: keys
 * (see conf_diff) that take effect at once, and keys that it reads only at its start. Adds
 * to both lists. */
void settings_compare(const struct settings *running,
                      const struct settings *fresh, const char *kind,
                      struct string_list *changed, struct string_list *restart);
/* Call it before `fresh` replaces `running`: copies what is read only at a start, so that
 * the settings stay what the process really uses, and the next comparison says again that a
 * restart is needed. Afterwards `running` may only be freed. */
void settings_keep_start_values(struct settings *running,
                                struct settings *fresh);

/* The name of this host, without its domain: `cluster.host`, or the system's; "": it has none. */
void settings_host(const struct settings *s, char out[HOST_NAME_SIZE]);
/* What is wrong with the name of a process of `cluster.peers`: a static sentence, or NULL. */
const char *settings_wrong_peer_name(const char *text);

/* The host of this URL, if that is written as a private address that `allow` does not permit, so
 * that every request to it is blocked; the caller's. NULL: it is not. Names are not looked up. */
char *settings_blocked_host(const char *url, const struct allow_private *allow);

/* The word in the file, such as "hmac-sha256". */
const char *settings_scheme_name(enum scheme scheme);
/* Appends the outcomes as the file names them: "network, 408, 5xx". */
void settings_retry_on(const struct retry_on *r, struct buf *out);
/* Prints the effective configuration as YAML with comments, secrets as "…". */
void settings_print(const struct settings *s, struct buf *out);
/* Writes docs/CONFIGURATION.md, from the same tables. */
void settings_document(struct buf *out);
/* Writes grapnel.yaml(5), from the same tables. */
void settings_manual(struct buf *out);

#endif
