/* replicated: what the commands `grapnel replicate …` share: the configuration, the engine, and the stores of this host. */
#ifndef CTL_REPLICATED_H
#define CTL_REPLICATED_H

#include "ctl.h"
#include "engine.h"

/* What this run works with. */
struct replicated {
    struct ctl *c;
    const char *state_dir;
    char host[HOST_NAME_SIZE];
    int64_t hold_ms;
};

/* Reads the configuration; exits 78 if it has no `replicate`. */
void replicated_open(struct replicated *r, struct ctl *c);
/* The engine for this process; "": for overview() alone. The caller closes it. */
struct engine *replicated_engine(const struct replicated *r,
                                 const char *process);
/* The stores in the engine. NULL: it did not respond, and the error was printed (the command exits 69). They belong to `e` until its next call. */
const struct engine_store *replicated_overview(struct engine *e, size_t *count);
/* One of them; NULL: it is not replicated. */
const struct engine_store *replicated_find(const struct engine_store *stores,
                                           size_t count, const char *process);
/* The node of a host, or NULL. */
const struct engine_node *replicated_node(const struct engine_store *s,
                                          const char *host);

/* Whether this is the name of a process that is replicated, such as ingress-2; else the error was printed. */
bool replicated_name(const char *name);
/* The replicated processes of this host: those that `cluster.peers` gives to it, or the usual three if it gives none to any host; and those with a database in state_dir. false: there
 * are none, and the error was printed. */
bool replicated_names(const struct replicated *r, struct string_list *out);
/* The processes of all hosts that are to be replicated: those to which `cluster.peers` gives a host, else the usual three. */
void replicated_expected(const struct replicated *r, struct string_list *out);
/* Takes the lock of a stopped process, until this command exits. false: it runs, and the error was printed. */
bool replicated_lock(const struct replicated *r, const char *process);
char *replicated_path(const struct replicated *r,
                      const char *process); /* the caller's */

#endif
