/* config: reads grapnel.yaml into a `struct settings`, and checks, prints, compares and
 * documents it, all from one table of keys per section. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "settings.h"

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
                                    struct string_list *unset);
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
                      struct string_list *changed, struct string_list *restart);
/* Before `fresh` replaces `running`: keep what is read only at a start, so that
 * the settings in force are what the process really uses, and the next
 * comparison says again that a restart is needed. `running` may then only be
 * freed. */
void settings_keep_start_values(struct settings *running,
                                struct settings *fresh);

/* "hmac-sha256" */
const char *settings_scheme_name(enum scheme scheme);
/* The effective configuration as YAML with comments, secrets as "…". */
void settings_print(const struct settings *s, struct buf *out);
/* docs/CONFIGURATION.md, from the same tables. */
void settings_document(struct buf *out);
/* grapnel.yaml(5), from that. */
void settings_manual(struct buf *out);

#endif
