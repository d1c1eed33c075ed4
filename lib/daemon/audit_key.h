/* audit_key: the keys of the audit chain: which ones there are, and where they come from.
 *
 * Loaded once, at the start of a process, and borrowed by its audit chain until the end. The
 * first key is in use; the others only verify rows that were written with them. Without
 * audit.key in the configuration the key is in the file state_dir/audit.key, which the first
 * process that starts makes. A crash leaves the whole file or none. */
#ifndef DAEMON_AUDIT_KEY_H
#define DAEMON_AUDIT_KEY_H

#include "rc.h"
#include "settings.h"

enum { AUDIT_KEY_ID_BYTES = 16 }; /* digits; the first of a keyed hash */

struct audit_key {
    char id[AUDIT_KEY_ID_BYTES + 1];
    char *text;
};
struct audit_keys {
    struct audit_key *all;
    size_t count;
};

/* Adds a copy. */
void audit_keys_add(struct audit_keys *k, const char *text);
void audit_keys_fini(struct audit_keys *k);
/* NULL: there is no such key. */
const struct audit_key *audit_key_named(const struct audit_keys *k,
                                        const char *id);

/* The keys of this configuration. Makes the file if it is needed and missing. Ends the process
 * if it cannot be read or made. */
void audit_keys_load(struct audit_keys *k, const struct settings *s);

/* The path of the file; the caller's. */
char *audit_key_path(const char *state_dir);
/* The key in the file; the caller's. NULL: `why` says why; errno ENOENT: there is no such file. */
char *audit_key_read(const char *path, char why[200]);

#endif
