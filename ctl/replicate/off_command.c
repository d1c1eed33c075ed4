/* off_command: `grapnel replicate off`: ends the replication of stores, whose files stay with this host.
 *
 * First the engine's row goes, which fences everybody; then the position of the file. A crash between the two is repeated. */
#include "clock.h"
#include "cut.h"
#include "first_history.h"
#include "replicated.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the file ends where the log ends: with its last turn, or with one more of which nobody was told. */
static bool is_at_the_end(const struct content *c, const struct owner *o)
{
    return c->exists && ((c->has_last && position_equal(&c->last, &o->at)) ||
                         (c->has_before && position_equal(&c->before, &o->at)));
}

static bool has_no_holder(const struct owner *o)
{
    static const uint8_t nobody[HOLDER_BYTES];

    return memcmp(o->holder, nobody, HOLDER_BYTES) == 0;
}

static int read_owner(struct engine *e, const char *process,
                      const struct engine_store **s)
{
    size_t count;
    const struct engine_store *all = replicated_overview(e, &count);

    *s = all ? replicated_find(all, count, process) : NULL;
    return all ? 0 : EXIT_UNAVAILABLE;
}

/* The holder was on another host, so it must have been silent for takeover_after. */
static int wait_for_silence(const struct replicated *r, struct engine *e,
                            const char *process, struct owner *owner)
{
    int64_t ms = r->c->settings->replicate.takeover_after_ms;
    int64_t beat = owner->beat;
    const struct engine_store *s;
    int code;

    complain(0, "%s: looking for %lld s whether the active process is silent",
             process, (long long)(ms / SECOND_MS));
    usleep((useconds_t)(ms * 1000));
    code = read_owner(e, process, &s);
    if (code)
        return code;
    if (!s || s->owner.beat != beat || s->owner.epoch != owner->epoch)
        return complain(EXIT_REFUSED,
                        "%s is active on %s: stop it there first, or hand it "
                        "over to this host (`grapnel handover %s %s`)",
                        process, s ? s->owner.host : "another host", process,
                        r->host);
    *owner = s->owner;
    return 0;
}

/* Nobody has ever owned it. */
static bool is_unused(const struct owner *o)
{
    return !o->epoch && !o->at.n && has_no_holder(o);
}

/* Whether this host may end the history that `owner` has. */
static int may_end(const struct replicated *r, struct engine *look,
                   const char *process, const char *path, struct owner *owner)
{
    struct content content;
    char reason[200] = "";

    if (content_read(path, &content, reason) != GR_OK)
        return complain(EXIT_REFUSED, "%s: %s", path, reason);
    if (!is_at_the_end(&content, owner))
        return complain(EXIT_REFUSED,
                        "%s is not the newest: the log of %s ends with turn "
                        "%lld, and %s had it last. Run this command there",
                        path, process, (long long)owner->at.n,
                        *owner->host ? owner->host : "another host");
    return has_no_holder(owner) ? 0 : wait_for_silence(r, look, process, owner);
}

/* Deletes the log and the snapshots of a history that has ended: no process reads them any more, and they have events. */
static int clear(struct engine *e, const char *process)
{
    char why[ENGINE_WHY_BYTES] = "";
    bool more = true;

    while (more)
        if (engine_postgres.clear(e, &more, why) != ENGINE_DONE)
            return complain(EXIT_UNAVAILABLE,
                            "%s: the replication database still has its log "
                            "and snapshots%s%s: the tables may be dropped",
                            process, *why ? ": " : "", why);
    return 0;
}

/* The engine has no row of it. */
static int is_ended(const char *process, const char *path, bool has_file)
{
    if (has_file)
        return complain(
            EXIT_REFUSED,
            "the replication of %s was ended already, by another host or by "
            "this command before it was interrupted. If this host is to keep "
            "the file, and no other has it, repeat this with `grapnel "
            "replicate off %s --standbys-are-stopped`. Else move %s away",
            process, process, path);
    printf("%s: is not replicated: it was never begun, or was ended already; "
           "remove `replicate` from the configuration before it is started, or "
           "begin again\n",
           process);
    return 0;
}

/* `has_file`: this host has the file with its position; else only a history that nobody has used ends. *ended: the engine has no row of it any more. */
static int end_store(const struct replicated *r, struct engine *look,
                     const char *process, const char *path, bool has_file,
                     struct owner owner, bool *ended)
{
    char why[ENGINE_WHY_BYTES] = "";
    struct engine *e;
    int code = 0;

    if (!is_unused(&owner))
        code = has_file ? may_end(r, look, process, path, &owner)
                        : complain(EXIT_REFUSED,
                                   "%s is not replicated on this host: it has "
                                   "no position beside it",
                                   path);
    if (code)
        return code;
    e = replicated_engine(r, process);
    *ended = engine_postgres.end_history(e, &owner, why) == ENGINE_DONE;
    code = *ended ? clear(e, process)
                  : complain(EXIT_UNAVAILABLE,
                             "%s: it is not known whether replication has "
                             "ended%s%s: repeat this command",
                             process, *why ? ": " : "", why);
    engine_postgres.close(e);
    return code;
}

static int end_in_engine(const struct replicated *r, const char *process,
                         const char *path, bool has_file, bool *ended)
{
    struct engine *look = replicated_engine(r, "");
    const struct engine_store *s;
    int code = read_owner(look, process, &s);

    *ended = false;
    if (!code && s)
        code = end_store(r, look, process, path, has_file, s->owner, ended);
    else if (!code)
        code = is_ended(process, path, has_file);
    engine_postgres.close(look);
    return code;
}

static int off(const struct replicated *r, const char *process, bool alone)
{
    char *path = replicated_path(r, process);
    struct stored_position stored = {0};
    bool ended = alone, has_file;
    int code = 0;

    if (!replicated_lock(r, process)) {
        free(path);
        return EXIT_REFUSED;
    }
    has_file = position_file_read(path, &stored);
    if (has_file && stored.at.n < stored.whole_from)
        code = complain(EXIT_REFUSED,
                        "%s is not complete: it has turn %lld, and pages up to "
                        "turn %lld",
                        path, (long long)stored.at.n,
                        (long long)stored.whole_from);
    else if (alone && !has_file)
        code = complain(EXIT_REFUSED,
                        "%s is not replicated on this host: it has no position "
                        "beside it",
                        path);
    else if (!alone)
        code = end_in_engine(r, process, path, has_file, &ended);
    if (ended && (!code || code == EXIT_UNAVAILABLE)) {
        history_forget(path);
        printf("%s: not replicated any more; remove `replicate` from the "
               "configuration before it is started, or begin again\n",
               process);
    }
    free(path);
    return code;
}

int run_replicate_off(struct ctl *c)
{
    bool alone = parsed_value(&c->parsed, "--standbys-are-stopped") != NULL;
    struct replicated r;
    int code = 0;

    for (int i = 0; i < c->parsed.arg_count; i++)
        if (!replicated_name(c->parsed.args[i]))
            return EXIT_USAGE;
    replicated_open(&r, c);
    for (int i = 0; i < c->parsed.arg_count && !code; i++)
        code = off(&r, c->parsed.args[i], alone);
    return code;
}
