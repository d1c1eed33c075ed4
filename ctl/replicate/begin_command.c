/* begin_command: `grapnel replicate begin`: begins the history of the stores of this host.
 *
 * First the file gets its position, then the engine its row. A crash between the two, or a reply that is lost, is repeated with the same position. */
#include "apply.h"
#include "db_file.h"
#include "first_history.h"
#include "replicated.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRIES = 3 };

static void say_begun(const char *process, bool has_file)
{
    printf("%s: replication begins when it is started%s\n", process,
           has_file ? " on this host" : ", with an empty database");
}

/* Rows of a former history. false: the error was printed. */
static bool clear(struct engine *e, const char *process)
{
    char why[ENGINE_WHY_BYTES];
    bool more = true;

    while (more) {
        enum engine_result r = engine_postgres.clear(e, &more, why);

        if (r == ENGINE_NO_ROW)
            return true; /* somebody has begun meanwhile: begin_history() says it */
        if (r == ENGINE_UNKNOWN) {
            complain(EXIT_UNAVAILABLE, "%s: the replication database: %s",
                     process, why);
            return false;
        }
    }
    return true;
}

/* *made: by this command. Else it may be there from before. */
static int make_row(const struct replicated *r, const char *process,
                    const struct position *at, int schema, bool *made)
{
    struct engine *e = replicated_engine(r, process);
    char why[ENGINE_WHY_BYTES] = "";
    enum engine_result result = ENGINE_UNKNOWN;

    for (int i = 0; i < TRIES && result == ENGINE_UNKNOWN; i++) {
        if (!clear(e, process)) {
            engine_postgres.close(e);
            return EXIT_UNAVAILABLE;
        }
        result = engine_postgres.begin_history(e, at, schema, why);
    }
    engine_postgres.close(e);
    *made = result == ENGINE_DONE;
    if (result == ENGINE_UNKNOWN)
        return complain(EXIT_UNAVAILABLE,
                        "%s: it is not known whether replication has begun "
                        "(%s): repeat this command",
                        process, why);
    return 0;
}

static bool is_ours(const struct engine_store *s,
                    const struct stored_position *p)
{
    return memcmp(s->owner.at.history, p->at.history, HISTORY_BYTES) == 0;
}

static bool is_unused(const struct owner *o)
{
    return !o->epoch && !o->at.n;
}

static bool is_here(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* *known: the store is in the engine. */
static int look(const struct replicated *r, const char *process,
                const char *path, bool *known)
{
    struct engine *e = replicated_engine(r, "");
    size_t count;
    const struct engine_store *all = replicated_overview(e, &count), *s;
    struct stored_position stored;
    int code = 0;

    *known = false;
    if (!all) {
        engine_postgres.close(e);
        return EXIT_UNAVAILABLE;
    }
    s = replicated_find(all, count, process);
    *known = s != NULL;
    if (s && is_unused(&s->owner) && position_is_empty(&s->owner.at) &&
        !is_here(path))
        printf("%s: replication has begun already, with an empty database\n",
               process);
    else if (s && is_unused(&s->owner) && !position_file_read(path, &stored))
        code = complain(EXIT_REFUSED,
                        "%s: replication was begun already, with %s, and "
                        "nothing was written since: to begin with %s instead, "
                        "run `grapnel replicate off %s` first",
                        process,
                        position_is_empty(&s->owner.at)
                            ? "an empty database"
                            : "the database of another host",
                        path, process);
    else if (s && (!position_file_read(path, &stored) || !is_ours(s, &stored)))
        code = complain(
            EXIT_REFUSED,
            "%s is replicated already, and %s has it: to follow it on this "
            "host, move %s away (if it is there) and start the process",
            process, *s->owner.host ? s->owner.host : "another host", path);
    else if (s)
        printf("%s: replication has begun already\n", process);
    engine_postgres.close(e);
    return code;
}

/* The position of another history than one that this command has begun: the file may be older than that of another host, or be a mixture. */
static bool has_former(const char *process, const char *path)
{
    struct stored_position p;

    if (!is_here(path) || !position_file_read(path, &p) ||
        (!p.at.n && !p.active))
        return false;
    complain(EXIT_REFUSED,
             "%s has turn %lld of a history that has ended. If this host is to "
             "keep it, and no other has a newer one: `grapnel replicate off %s "
             "--standbys-are-stopped`, then this command. Else move it away",
             path, (long long)p.at.n, process);
    return true;
}

static int begin_here(const struct replicated *r, const char *process,
                      const char *path)
{
    char why[200] = "";
    struct stored_position stored;
    bool made, known;
    int schema, code;

    if (has_former(process, path))
        return EXIT_REFUSED;
    if (history_prepare(path, &stored, &schema, why) != GR_OK)
        return complain(EXIT_STORAGE, "%s: %s", path, why);
    code = make_row(r, process, &stored.at, schema, &made);
    if (!code && made)
        say_begun(process, is_here(path));
    return code || made ? code : look(r, process, path, &known);
}

static int begin(const struct replicated *r, const char *process)
{
    char *path = replicated_path(r, process);
    bool known;
    int code = look(r, process, path, &known);

    if (!code && !known)
        code = begin_here(r, process, path);
    free(path);
    return code;
}

/* Asked of all before one begins. */
static bool is_plain(const struct replicated *r, const char *process)
{
    char *path = replicated_path(r, process), why[DB_FILE_WHY_BYTES];
    bool plain = db_file_is_plain(path, why);

    if (!plain)
        complain(EXIT_STORAGE, "%s %s. Nothing has begun", path, why);
    free(path);
    return plain;
}

int run_replicate_begin(struct ctl *c)
{
    struct string_list names = {0};
    struct replicated r;
    int code = 0;

    for (int i = 0; i < c->parsed.arg_count; i++)
        if (!replicated_name(c->parsed.args[i]))
            return EXIT_USAGE;
    replicated_open(&r, c);
    for (int i = 0; i < c->parsed.arg_count; i++)
        string_list_add(&names, c->parsed.args[i]);
    if (!names.count && !replicated_names(&r, &names))
        code = EXIT_CONFIG;
    for (size_t i = 0; i < names.count && !code; i++)
        if (!is_plain(&r, names.items[i]))
            code = EXIT_STORAGE;
    /* All of them first: of several, none begins while another one runs. */
    for (size_t i = 0; i < names.count && !code; i++)
        if (!replicated_lock(&r, names.items[i]))
            code = EXIT_REFUSED;
    for (size_t i = 0; i < names.count && !code; i++)
        code = begin(&r, names.items[i]);
    string_list_fini(&names);
    return code;
}
