/* restore: `grapnel restore`: replaces the databases by the copies of a backup.
 *
 * All copies are made ready in state_dir/restore.new first: checked, of the right process,
 * stamped, without a -wal. Then they are moved into place while this command holds the locks of
 * the processes, and the replaced files are moved to state_dir/replaced-TIME. Meanwhile
 * state_dir/restore.unfinished names the processes; no process starts while this file exists
 * (lib/daemon/daemon.c), so after a crash no process works with a mixture of old and new files.
 * The same command continues an interrupted restore. */
#include "ask.h"
#include "clock.h"
#include "db.h"
#include "db_file.h"
#include "db_version.h"
#include "epochs.h"
#include "json_text.h"
#include "position_file.h"
#include "stores.h"
#include "table.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COPY_BYTES = 1024 * 1024, MARKER_MAX_BYTES = 64 * 1024 };

struct copy {
    char *name;  /* of the process */
    int version; /* of its schema */
    int64_t copied_ms, bytes;
    int64_t lost; /* requests accepted since the copy; -1: unknown */
    bool replaced;
};

struct restore {
    const char *from, *state_dir;
    char *folder, *actor; /* for the audit rows: `from`, absolute; the user */
    char *staging, *marker, *aside;
    struct copy *copies;
    size_t count;
    bool in_place; /* `from` is state_dir: the files are only stamped */
};

static bool is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* ---- which copies ---- */

static void add(struct restore *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->copies[i].name, name) == 0)
            return;
    r->copies = gr_realloc(r->copies, (r->count + 1) * sizeof *r->copies);
    r->copies[r->count++] = (struct copy){.name = gr_strdup(name), .lost = -1};
}

static int compare(const void *a, const void *b)
{
    const struct copy *x = a, *y = b;

    return strverscmp(x->name, y->name);
}

static bool has_kind(const struct restore *r, const struct store_kind *k)
{
    for (size_t i = 0; i < r->count; i++)
        if (store_kind_of(r->copies[i].name) == k)
            return true;
    return false;
}

/* Every copy in the folder. false: it cannot be read, or a copy is missing without which the
 * others are of no use. */
static bool find_all(struct restore *r)
{
    DIR *dir = opendir(r->from);
    struct dirent *e;
    bool complete = true;

    if (!dir) {
        complain(EXIT_REFUSED, "cannot read %s: %s", r->from, strerror(errno));
        return false;
    }
    while ((e = readdir(dir))) {
        size_t n = strlen(e->d_name);
        char *name = n > 3 && strcmp(e->d_name + n - 3, ".db") == 0
                         ? gr_strndup(e->d_name, n - 3)
                         : NULL;

        if (name && store_kind_of(name))
            add(r, name);
        free(name);
    }
    closedir(dir);
    if (r->count)
        qsort(r->copies, r->count, sizeof *r->copies, compare);
    for (size_t i = 0; i < store_kind_count; i++)
        if (store_kinds[i].needed && !has_kind(r, &store_kinds[i])) {
            complain(EXIT_REFUSED,
                     "%s has no copy of %s (no file %s.db); to restore only "
                     "the others, name them",
                     r->from, store_kinds[i].process, store_kinds[i].process);
            complete = false;
        }
    return complete;
}

static bool take_named(struct restore *r, const char *const *names)
{
    bool good = true;

    for (; *names; names++) {
        char *path = gr_printf("%s/%s.db", r->from, *names);

        if (!store_kind_of(*names) || strchr(*names, '/')) {
            complain(EXIT_REFUSED,
                     "%s is not the name of a process, such as sequencer or "
                     "deliverer-1",
                     *names);
            good = false;
        } else if (!is_there(path)) {
            complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
            good = false;
        } else {
            add(r, *names);
        }
        free(path);
    }
    return good;
}

/* Neither the copies nor the files that they replace are links or pipes. */
static bool are_plain(const struct restore *r)
{
    const char *const folders[] = {r->from, r->state_dir};
    bool good = true;

    for (size_t i = 0; i < r->count; i++)
        for (size_t k = r->in_place; k < COUNT_OF(folders); k++) {
            char *path = gr_printf("%s/%s.db", folders[k], r->copies[i].name);
            char why[DB_FILE_WHY_BYTES];

            if (!db_file_is_plain(path, why)) {
                complain(EXIT_REFUSED, "%s %s. Nothing was changed", path, why);
                good = false;
            }
            free(path);
        }
    return good;
}

/* Whether this restore includes all processes of an earlier one that was interrupted. */
static bool finishes_earlier(const struct restore *r)
{
    char *text, *name, *at = NULL;
    size_t n;
    bool good = true;

    if (!is_there(r->marker))
        return true;
    if (r->in_place) {
        complain(EXIT_REFUSED,
                 "an earlier restore was interrupted (%s is there): run it "
                 "again, from the folder of its backup",
                 r->marker);
        return false;
    }
    text = read_file(r->marker, MARKER_MAX_BYTES, &n);
    good = text != NULL; /* else its processes are not known */
    for (name = text ? strtok_r(text, "\n", &at) : NULL; name;
         name = strtok_r(NULL, "\n", &at)) {
        bool named = false;

        for (size_t i = 0; i < r->count; i++)
            named |= strcmp(r->copies[i].name, name) == 0;
        if (!named)
            complain(EXIT_REFUSED,
                     "an earlier restore was interrupted, and %s was part of "
                     "it: restore it, too",
                     name);
        good = good && named;
    }
    free(text);
    return good;
}

/* A restored file would follow the log back to the present, or be set aside. */
static bool are_not_replicated(const struct restore *r)
{
    bool good = true;

    for (size_t i = 0; i < r->count; i++) {
        char *path = gr_printf("%s/%s.db", r->state_dir, r->copies[i].name);
        struct stored_position stored;

        if (position_file_read(path, &stored)) {
            complain(EXIT_REFUSED,
                     "%s is replicated: end that first (`grapnel replicate off "
                     "%s`), restore, then begin again (`grapnel replicate "
                     "begin %s`)",
                     r->copies[i].name, r->copies[i].name, r->copies[i].name);
            good = false;
        }
        free(path);
    }
    return good;
}

/* Takes the locks of the processes and keeps them until this command exits. */
static bool take_locks(const struct restore *r)
{
    bool good = true;

    for (size_t i = 0; i < r->count; i++) {
        char *path = gr_printf("%s/%s.lock", r->state_dir, r->copies[i].name);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        char pid[24] = "";

        if (fd < 0) {
            complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
            good = false;
        } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (read(fd, pid, sizeof pid - 1) > 0)
                pid[strcspn(pid, "\n")] = 0;
            complain(EXIT_REFUSED,
                     "%s is running (process %s): stop it, and keep the "
                     "supervisor from starting it",
                     r->copies[i].name, pid);
            good = false;
        }
        free(path);
    }
    return good;
}

/* Refuses copies of a newer version, because this version could not start with them. */
static bool are_known(const struct restore *r)
{
    bool good = true;

    for (size_t i = 0; i < r->count; i++) {
        struct copy *c = &r->copies[i];
        const struct store_kind *kind = store_kind_of(c->name);
        char *path = gr_printf("%s/%s.db", r->from, c->name);

        c->version = db_version_of(path);
        if (c->version > kind->version) {
            complain(EXIT_REFUSED,
                     "%s has schema version %d, this grapnel %s knows versions "
                     "up to %d: install the version of Grapnel that made this "
                     "backup, or a newer one, then restore it. Nothing was "
                     "changed",
                     path, c->version, GRAPNEL_VERSION, kind->version);
            good = false;
        }
        free(path);
    }
    return good;
}

/* ---- make ready ---- */

static bool sync_path(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    bool good = fd >= 0 && fsync(fd) == 0;

    if (!good)
        complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good;
}

static bool copy_file(const char *from, const char *to)
{
    char *chunk = gr_alloc(COPY_BYTES);
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in < 0 ? -1
                     : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = out >= 0;
    ssize_t n = 0;

    if (good)
        errno = 0;
    while (good && (n = read(in, chunk, COPY_BYTES)) > 0)
        if (write(out, chunk, (size_t)n) != n) {
            errno = errno ? errno : ENOSPC;
            good = false;
        }
    good = good && n == 0 && fsync(out) == 0;
    if (!good)
        complain(EXIT_REFUSED, "cannot copy %s to %s: %s", from, to,
                 strerror(errno));
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    free(chunk);
    return good;
}

/* Copies the file, with the commits in a -wal beside it, which a folder has that was copied
 * after a crash; checks and stamps it. */
static bool make_ready(const struct restore *r, struct copy *c)
{
    const struct store_kind *kind = store_kind_of(c->name);
    char *from = gr_printf("%s/%s.db", r->from, c->name);
    char *from_wal = gr_printf("%s-wal", from);
    char *to = r->in_place ? gr_strdup(from)
                           : gr_printf("%s/%s.db", r->staging, c->name);
    char *to_wal = gr_printf("%s-wal", to), why[200];
    struct stat st;
    bool good = r->in_place ||
                (copy_file(from, to) &&
                 (!is_there(from_wal) || copy_file(from_wal, to_wal)));

    if (good && db_copy_prepare(to, kind->table, r->actor, r->folder,
                                &c->copied_ms, why) != GR_OK) {
        complain(EXIT_REFUSED, "%s: %s", from, why);
        good = false;
    }
    good = good && sync_path(to, 0);
    c->bytes = stat(to, &st) == 0 ? st.st_size : 0;
    free(from);
    free(from_wal);
    free(to);
    free(to_wal);
    return good;
}

static void empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* What a database says of the link by which it hands requests on: the number that the next one gets, and which start wrote which
 * numbers. */
struct handed {
    int64_t next; /* 0: the file does not say it */
    struct epochs epochs;
};

/* false: the file is damaged there. */
static bool read_starts(sqlite3_stmt *s, struct epochs *out)
{
    int64_t last = 0, first;
    int rc;

    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        first = sqlite3_column_int64(s, 1);
        if (first <= last)
            return false;
        last = first;
        epochs_add(out, (uint64_t)sqlite3_column_int64(s, 0), (uint64_t)first);
    }
    return rc == SQLITE_DONE;
}

/* Version 0.2.0 and earlier have other names. */
static struct handed read_handed(const char *path)
{
    static const char *const queries[][2] = {
        {"SELECT max(next), link FROM link_out",
         "SELECT epoch, first FROM link_out_epochs WHERE link = ? ORDER BY "
         "first"},
        {"SELECT max(next), link FROM hop_out",
         "SELECT run, first FROM hop_out_runs WHERE link = ? ORDER BY first"}};
    struct handed handed = {0};
    sqlite3 *h = NULL;
    sqlite3_stmt *s = NULL, *of = NULL;

    (void)sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE, NULL);
    for (size_t i = 0; i < COUNT_OF(queries) && !handed.epochs.count; i++) {
        if (sqlite3_prepare_v2(h, queries[i][0], -1, &s, NULL) == SQLITE_OK &&
            sqlite3_prepare_v2(h, queries[i][1], -1, &of, NULL) == SQLITE_OK &&
            sqlite3_step(s) == SQLITE_ROW) {
            handed.next = sqlite3_column_int64(s, 0);
            sqlite3_bind_int64(of, 1, sqlite3_column_int64(s, 1));
            if (!read_starts(of, &handed.epochs))
                handed.next = 0;
        }
        sqlite3_finalize(of);
        sqlite3_finalize(s);
        of = s = NULL;
    }
    sqlite3_close(h);
    return handed;
}

/* How many requests `now` has behind the last one that both have. -1: unknown. */
static int64_t missing_in(const struct handed *then, const struct handed *now)
{
    uint64_t both;

    if (!now->next || !then->next)
        return -1;
    both = epochs_common(&now->epochs, (uint64_t)now->next - 1, &then->epochs,
                         (uint64_t)then->next - 1);
    if (!both && then->next > 1) /* the starts that both know are forgotten */
        return -1;
    return now->next - 1 - (int64_t)both;
}

/* Sets the number of accepted requests that are lost, for a copy of ingress. Opens the present
 * database, which may create files beside it, so all copies must be ready. */
static void count_lost(const struct restore *r, struct copy *c)
{
    char *now = gr_printf("%s/%s.db", r->state_dir, c->name);
    char *then = gr_printf("%s/%s.db", r->staging, c->name);

    if (process_is(c->name, PROCESSES_WITH_ARCHIVE) && is_there(now)) {
        struct handed has = read_handed(now), had = read_handed(then);

        c->lost = missing_in(&had, &has);
        epochs_fini(&has.epochs);
        epochs_fini(&had.epochs);
    }
    free(now);
    free(then);
}

static bool make_all_ready(struct restore *r)
{
    bool good = true;

    if (!r->in_place) {
        empty_folder(r->staging); /* of one that was interrupted */
        if (mkdir(r->staging, 0700) != 0) {
            complain(EXIT_REFUSED, "%s: %s", r->staging, strerror(errno));
            return false;
        }
    }
    for (size_t i = 0; i < r->count; i++)
        good = make_ready(r, &r->copies[i]) && good;
    if (!good && !r->in_place)
        empty_folder(r->staging);
    for (size_t i = 0; good && !r->in_place && i < r->count; i++)
        count_lost(r, &r->copies[i]);
    return good;
}

/* ---- into place ---- */

/* By a rename, so that the mark of an earlier restore stays whole if the disk is full. */
static bool write_marker(const struct restore *r)
{
    char *fresh = gr_printf("%s.new", r->marker);
    FILE *f = fopen(fresh, "we");
    bool good = f != NULL;

    for (size_t i = 0; good && i < r->count; i++)
        good = fprintf(f, "%s\n", r->copies[i].name) > 0;
    good = good && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f)
        good = fclose(f) == 0 && good;
    good = good && rename(fresh, r->marker) == 0;
    if (!good) {
        complain(EXIT_REFUSED, "%s: %s", r->marker, strerror(errno));
        unlink(fresh);
    }
    free(fresh);
    return good && sync_path(r->state_dir, O_DIRECTORY);
}

static bool move(const char *from_dir, const char *name, const char *suffix,
                 const char *to_dir, bool *moved)
{
    char *from = gr_printf("%s/%s%s", from_dir, name, suffix);
    char *to = gr_printf("%s/%s%s", to_dir, name, suffix);
    bool good = rename(from, to) == 0;

    if (moved)
        *moved = good;
    if (!good && moved && errno == ENOENT)
        good = true; /* there is no such file */
    if (!good)
        complain(EXIT_REFUSED, "cannot move %s to %s: %s", from, to,
                 strerror(errno));
    free(from);
    free(to);
    return good;
}

static bool put_in_place(const struct restore *r, struct copy *c)
{
    /* The deliverer's .inflight names tasks that the copy does not have. */
    static const char *const beside[] = {".db-wal", ".db-shm", ".inflight"};
    bool moved;

    if (!move(r->state_dir, c->name, ".db", r->aside, &c->replaced))
        return false;
    for (size_t i = 0; i < COUNT_OF(beside); i++)
        if (!move(r->state_dir, c->name, beside[i], r->aside, &moved))
            return false;
    return move(r->staging, c->name, ".db", r->state_dir, NULL);
}

static bool make_aside(struct restore *r)
{
    time_t now = (time_t)(now_ms() / 1000);
    struct tm utc;
    char text[32];

    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
    for (int i = 1; i < 100; i++) {
        free(r->aside);
        r->aside = i == 1
                       ? gr_printf("%s/replaced-%s", r->state_dir, text)
                       : gr_printf("%s/replaced-%s-%d", r->state_dir, text, i);
        if (mkdir(r->aside, 0700) == 0)
            return true;
        if (errno != EEXIST)
            break;
    }
    complain(EXIT_REFUSED, "%s: %s", r->aside, strerror(errno));
    free(r->aside);
    r->aside = NULL;
    return false;
}

/* No file has been moved yet: if this fails, all is as it was. */
static bool begin_swap(struct restore *r)
{
    bool continues = is_there(r->marker);

    if (make_aside(r) && write_marker(r))
        return true;
    if (!continues)
        unlink(r->marker);
    if (r->aside)
        rmdir(r->aside);
    empty_folder(r->staging);
    complain(EXIT_REFUSED,
             continues ? "an earlier restore is still not finished: correct "
                         "the cause and run the command again"
                       : "nothing was changed");
    return false;
}

static bool swap(struct restore *r)
{
    bool any = false;

    if (!begin_swap(r))
        return false;
    for (size_t i = 0; i < r->count; i++) {
        if (!put_in_place(r, &r->copies[i])) {
            complain(
                EXIT_REFUSED,
                "the restore is not finished, and no process starts before it "
                "is: correct the cause and run the command again");
            return false;
        }
        any = any || r->copies[i].replaced;
    }
    if (!sync_path(r->aside, O_DIRECTORY) ||
        !sync_path(r->state_dir, O_DIRECTORY))
        return false;
    if (unlink(r->marker) != 0) {
        complain(EXIT_REFUSED,
                 "the databases are restored (the replaced files are in %s), "
                 "but %s cannot be deleted: %s; no process starts while it "
                 "exists: correct the cause and delete it",
                 r->aside, r->marker, strerror(errno));
        return false;
    }
    rmdir(r->staging);
    if (!any && rmdir(r->aside) == 0) {
        free(r->aside);
        r->aside = NULL;
    }
    return sync_path(r->state_dir, O_DIRECTORY);
}

/* ---- then reconcile ---- */

/* The sources of --then-reconcile have `reconcile`. */
static bool can_reconcile(struct ctl *c, const char *sources)
{
    char *all = gr_strdup(sources ? sources : ""), *at = NULL;
    bool good = true;

    for (char *name = strtok_r(all, ",", &at); name && good;
         name = strtok_r(NULL, ",", &at)) {
        const struct source *s = settings_source(c->settings, name);

        good = s && s->reconcile.every_ms;
        if (!good)
            complain(EXIT_REFUSED,
                     "--then-reconcile %s: no source of this name has "
                     "`reconcile`. Nothing was changed",
                     name);
    }
    free(all);
    return good;
}

/* Tells grapnel-reconcile, which need not run, from when on it is to read the lists: it takes the file. */
static bool write_since(const struct restore *r, const char *sources)
{
    char *path = gr_printf("%s/reconcile-since", r->state_dir),
         *fresh = gr_printf("%s.new", path), *all = gr_strdup(sources),
         *at = NULL;
    FILE *f = fopen(fresh, "we");
    int64_t oldest_ms = INT64_MAX;
    bool good = f != NULL;

    for (size_t i = 0; i < r->count; i++)
        if (r->copies[i].copied_ms < oldest_ms)
            oldest_ms = r->copies[i].copied_ms;
    for (char *name = strtok_r(all, ",", &at); good && name;
         name = strtok_r(NULL, ",", &at))
        good = fprintf(f, "%s %lld\n", name, (long long)(oldest_ms - HOUR_MS)) >
               0;
    good = good && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f)
        good = fclose(f) == 0 && good;
    good = good && rename(fresh, path) == 0;
    if (!good)
        complain(EXIT_REFUSED,
                 "the databases are restored, but %s cannot be written: %s; "
                 "run grapnel reconcile SOURCE --since TIME when the processes "
                 "run",
                 path, strerror(errno));
    free(path);
    free(fresh);
    free(all);
    return good && sync_path(r->state_dir, O_DIRECTORY);
}

/* ---- output ---- */

/* Erased workspaces are in no backup (docs/decisions/0101). */
static void print_erasures(const struct restore *r)
{
    char *path = gr_printf("%s/erasures", r->state_dir);

    if (access(path, F_OK) == 0)
        printf("Workspaces that were erased are erased again when the "
               "processes start.\n");
    else
        printf("There is no %s: workspaces that were erased\non another "
               "machine come back, unless you put its copy there first.\n",
               path);
    free(path);
}

/* Nor is what was revoked and deleted (docs/decisions/0105). */
static void print_ended(const struct restore *r)
{
    char *path = gr_printf("%s/ended", r->state_dir);

    if (access(path, F_OK) == 0)
        printf("Tokens that were revoked stay revoked, and endpoints made at "
               "run time that were\ndeleted stay deleted.\n");
    else
        printf("There is no %s: tokens of the HTTP API that were\nrevoked on "
               "another machine since then are valid again, and endpoints made "
               "at run time\nthat were deleted there get events again, unless "
               "you put its copy there first.\n",
               path);
    free(path);
}

static void print_copies(struct ctl *ctl, const struct restore *r)
{
    char since[RFC3339_BYTES], bytes[32], ago[32];
    int64_t oldest_ms = INT64_MAX;

    for (size_t i = 0; i < r->count; i++) {
        const struct copy *c = &r->copies[i];

        rfc3339(since, c->copied_ms);
        if (c->copied_ms < oldest_ms)
            oldest_ms = c->copied_ms;
        printf("%-14s %srestored%s  %s, copied at %s", c->name,
               colour_on(GREEN, ctl->colour), colour_off(GREEN, ctl->colour),
               human_bytes(c->bytes, bytes), since);
        if (c->lost >= 0)
            printf("; %lld request%s accepted since", (long long)c->lost,
                   c->lost == 1 ? " was" : "s were");
        if (c->version < store_kind_of(c->name)->version)
            printf("; schema version %d, brought to %d when it starts",
                   c->version, store_kind_of(c->name)->version);
        putchar('\n');
    }
    rfc3339(since, oldest_ms);
    printf("\nData stored after %s (%s ago) is lost, unless a process that was "
           "not restored\nstill has it.%s\n",
           since, human_ms(now_ms() - oldest_ms, ago),
           has_kind(r, store_kind_of("sequencer"))
               ? " The sequencer begins a new grapnel-series."
               : "");
    if (has_kind(r, store_kind_of("sequencer")))
        print_ended(r);
    print_erasures(r);
    if (r->aside)
        printf("The replaced files are in %s. Delete them when you no longer "
               "need them.\n",
               r->aside);
}

static bool is_same_folder(const char *one, const char *other)
{
    struct stat a, b;

    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* The processes could not open files of another user. */
static bool is_owner(const struct restore *r)
{
    struct stat st;

    if (stat(r->state_dir, &st) != 0) {
        complain(EXIT_REFUSED, "state_dir: %s: %s", r->state_dir,
                 strerror(errno));
        return false;
    }
    if (st.st_uid == geteuid())
        return true;
    complain(EXIT_REFUSED,
             "state_dir: %s belongs to user %u, and this command runs as user "
             "%u: run it as user %u (runuser -u NAME -- grapnel restore …), so "
             "that the processes can open the files. Nothing was changed",
             r->state_dir, (unsigned)st.st_uid, (unsigned)geteuid(),
             (unsigned)st.st_uid);
    return false;
}

int run_restore(struct ctl *c)
{
    static const char *const keys[] = {"state_dir", NULL},
                             *const with_sources[] = {"state_dir", "sources",
                                                      NULL};
    const char *const *names = c->parsed.args + 1;
    const char *sources = parsed_value(&c->parsed, "--then-reconcile");
    struct restore r = {0};
    json_t *copies;
    int code = EXIT_REFUSED;

    need_settings(c, sources ? with_sources : keys, "nothing was restored");
    if (!can_reconcile(c, sources))
        return EXIT_REFUSED;
    copies = json_array();
    r.from = c->parsed.args[0];
    r.state_dir = c->settings->state_dir;
    r.folder = realpath(r.from, NULL);
    if (!r.folder)
        r.folder = gr_strdup(r.from);
    r.actor = gr_printf("user %s", user_name());
    r.staging = gr_printf("%s/restore.new", r.state_dir);
    r.marker = gr_printf("%s/restore.unfinished", r.state_dir);
    if (mkdir(r.state_dir, 0700) != 0 && errno != EEXIST)
        complain(EXIT_REFUSED, "state_dir: cannot create %s: %s", r.state_dir,
                 strerror(errno));
    r.in_place = is_same_folder(r.from, r.state_dir);
    if (is_same_folder(r.from, r.staging))
        complain(EXIT_REFUSED,
                 "%s is a working folder of this command, which it empties "
                 "first: give the folder of the backup",
                 r.from);
    else if (is_owner(&r) && (*names ? take_named(&r, names) : find_all(&r)) &&
             are_plain(&r) && finishes_earlier(&r) && are_known(&r) &&
             are_not_replicated(&r) && take_locks(&r) && make_all_ready(&r) &&
             (r.in_place || swap(&r)))
        code = sources && !write_since(&r, sources) ? EXIT_REFUSED : 0;
    if (!code && !c->json)
        print_copies(c, &r);
    if (!code && !c->json && sources)
        printf("When grapnel-reconcile runs, it takes from the list of %s "
               "what the copies lack.\n",
               sources);
    for (size_t i = 0; !code && c->json && i < r.count; i++)
        json_array_append_new(
            copies,
            json_pack("{s:s, s:o, s:I, s:b, s:o, s:i}", "process",
                      r.copies[i].name, "copied_at",
                      json_time(r.copies[i].copied_ms), "bytes",
                      (json_int_t)r.copies[i].bytes, "replaced",
                      r.copies[i].replaced, "requests_lost",
                      r.copies[i].lost < 0 ? json_null()
                                           : json_integer(r.copies[i].lost),
                      "schema_version", r.copies[i].version));
    if (!code && c->json)
        print_json(json_pack("{s:o, s:O}", "replaced_files",
                             r.aside ? json_string(r.aside) : json_null(),
                             "processes", copies));
    json_decref(copies);
    for (size_t i = 0; i < r.count; i++)
        free(r.copies[i].name);
    free(r.copies);
    free(r.folder);
    free(r.actor);
    free(r.staging);
    free(r.marker);
    free(r.aside);
    return code;
}
