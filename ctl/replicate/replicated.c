/* replicated: the configuration, the engine and the files of the commands `grapnel replicate …`. */
#include "replicated.h"
#include "config.h"
#include "permission.h"
#include "stores.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = {"ingress", "sequencer", "dlqd"};

void replicated_open(struct replicated *r, struct ctl *c)
{
    static const char *const keys[] = {"state_dir", "cluster", "replicate",
                                       NULL};

    need_settings(c, keys, "`replicate` names the replication database");
    if (!c->settings->replicate.database)
        exit(complain(EXIT_CONFIG,
                      "%s has no `replicate`: set its database and key first "
                      "(docs/CLUSTER.md)",
                      c->settings->path));
    *r = (struct replicated){
        .c = c,
        .state_dir = c->settings->state_dir,
        .hold_ms = hold_of_ms(c->settings->replicate.takeover_after_ms)};
    settings_host(c->settings, r->host);
}

struct engine *replicated_engine(const struct replicated *r,
                                 const char *process)
{
    const struct engine_settings s = {
        .database = r->c->settings->replicate.database,
        .process = process,
        .host = r->host,
        .hold_ms = r->hold_ms,
        /* To look is allowed in any case. */
        .accept_weak = !*process || r->c->settings->replicate.accept_weak};

    return engine_postgres.open(&s);
}

const struct engine_store *replicated_overview(struct engine *e, size_t *count)
{
    const struct engine_store *stores;
    char why[ENGINE_WHY_BYTES];

    *count = 0;
    if (engine_postgres.overview(e, &stores, count, why) == ENGINE_DONE)
        return stores;
    complain(EXIT_UNAVAILABLE,
             "the replication database: %s; `grapnel check` says what is "
             "missing",
             why);
    return NULL;
}

const struct engine_store *replicated_find(const struct engine_store *stores,
                                           size_t count, const char *process)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(stores[i].process, process) == 0)
            return &stores[i];
    return NULL;
}

const struct engine_node *replicated_node(const struct engine_store *s,
                                          const char *host)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (strcmp(s->nodes[i].host, host) == 0)
            return &s->nodes[i];
    return NULL;
}

static bool is_replicated_kind(const char *name)
{
    const struct store_kind *kind = strchr(name, '/') ? NULL
                                                      : store_kind_of(name);

    for (size_t i = 0; kind && i < COUNT_OF(kinds); i++)
        if (strcmp(kind->process, kinds[i]) == 0)
            return true;
    return false;
}

bool replicated_name(const char *name)
{
    if (is_replicated_kind(name))
        return true;
    complain(EXIT_USAGE,
             "%s is not the name of a process that is replicated, such as "
             "ingress, sequencer, dlqd or ingress-2",
             name);
    return false;
}

static void add_name(struct string_list *l, const char *name)
{
    if (is_replicated_kind(name) && !string_list_has(l, name))
        string_list_add(l, name);
}

void replicated_expected(const struct replicated *r, struct string_list *out)
{
    const struct settings *s = r->c->settings;

    for (size_t i = 0; i < s->cluster.peer_count; i++)
        if (s->cluster.peers[i].host)
            add_name(out, s->cluster.peers[i].name);
    for (size_t i = 0; !out->count && i < COUNT_OF(kinds); i++)
        string_list_add(out, kinds[i]);
}

/* true: `cluster.peers` says of a replicated process on which host it is. */
static bool add_peers(const struct replicated *r, struct string_list *out)
{
    const struct settings *s = r->c->settings;
    bool any = false;

    for (size_t i = 0; i < s->cluster.peer_count; i++) {
        const struct cluster_peer *peer = &s->cluster.peers[i];

        if (!peer->host || !is_replicated_kind(peer->name))
            continue;
        any = true;
        if (strcmp(peer->host, r->host) == 0)
            add_name(out, peer->name);
    }
    return any;
}

static void add_files(const struct replicated *r, struct string_list *out)
{
    DIR *dir = opendir(r->state_dir);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        if (n > 3 && strcmp(e->d_name + n - 3, ".db") == 0) {
            char *name = gr_strndup(e->d_name, n - 3);

            add_name(out, name);
            free(name);
        }
    }
    if (dir)
        closedir(dir);
}

bool replicated_names(const struct replicated *r, struct string_list *out)
{
    if (!add_peers(r, out))
        for (size_t i = 0; i < COUNT_OF(kinds); i++)
            add_name(out, kinds[i]);
    add_files(r, out);
    if (!out->count)
        complain(EXIT_CONFIG,
                 "cluster.peers has no ingress, sequencer or dlqd on host %s, "
                 "which is the name of this host: correct `host` there, or "
                 "set cluster.host",
                 r->host);
    return out->count > 0;
}

bool replicated_lock(const struct replicated *r, const char *process)
{
    char *path, pid[24] = "";
    struct stat st;
    bool good;
    int fd;

    if (stat(r->state_dir, &st) != 0) {
        complain(EXIT_STORAGE, "%s: %s", r->state_dir, strerror(errno));
        return false;
    }
    if (st.st_uid != geteuid()) {
        complain(EXIT_REFUSED,
                 "%s belongs to another user: run this command as the user "
                 "that runs the processes, else they cannot read its files",
                 r->state_dir);
        return false;
    }
    path = gr_printf("%s/%s.lock", r->state_dir, process);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    good = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd < 0) {
        complain(EXIT_STORAGE, "%s: %s", path, strerror(errno));
    } else if (!good) {
        if (read(fd, pid, sizeof pid - 1) > 0)
            pid[strcspn(pid, "\n")] = 0;
        complain(EXIT_REFUSED,
                 "%s is running (process %s): stop it, and keep the supervisor "
                 "from starting it",
                 process, pid);
    }
    free(path);
    return good;
}

char *replicated_path(const struct replicated *r, const char *process)
{
    return gr_printf("%s/%s.db", r->state_dir, process);
}
