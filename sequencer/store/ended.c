/* ended: reads, searches and extends the file of revoked tokens and deleted endpoints. */
#include "ended.h"
#include "alloc.h"
#include "folder.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 128 };

struct one {
    char id[ENDED_ID_BYTES + 1];
    int64_t at_ms;
};

struct ended {
    char *path, *folder;
    struct one *all; /* by id */
    size_t count, capacity;
};

/* Where the id is, or belongs. */
static size_t place_of(const struct ended *e, const char *id)
{
    size_t low = 0, high = e->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(e->all[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct ended *e, size_t place, const char *id)
{
    return place < e->count && strcmp(e->all[place].id, id) == 0;
}

int64_t ended_at(const struct ended *e, const char *id)
{
    size_t place = place_of(e, id);

    return is_at(e, place, id) ? e->all[place].at_ms : 0;
}

size_t ended_count(const struct ended *e)
{
    return e->count;
}

static void put(struct ended *e, size_t place, const char *id, int64_t at_ms)
{
    if (e->count == e->capacity) {
        e->capacity = e->capacity ? 2 * e->capacity : 64;
        e->all = gr_realloc(e->all, e->capacity * sizeof *e->all);
    }
    memmove(e->all + place + 1, e->all + place,
            (e->count - place) * sizeof *e->all);
    e->all[place].at_ms = at_ms;
    snprintf(e->all[place].id, sizeof e->all[place].id, "%s", id);
    e->count++;
}

/* ---- read ---- */

_Noreturn static void unreadable(const struct ended *e, const char *why)
{
    die(EXIT_STORAGE,
        "%s: %s. It lists revoked tokens and deleted endpoints: without it, "
        "older copies of the database would bring them back. Put back the "
        "newest copy of the file",
        e->path, why);
}

/* "1763900000000 tok_…\n" */
static void read_line(struct ended *e, char *line, int64_t before_ms,
                      bool *stale)
{
    char *end;
    int64_t at_ms = strtoll(line, &end, 10);
    size_t n = *end == ' ' ? strlen(end + 1) : 0;

    if (end == line || n < 2 || n > ENDED_ID_BYTES + 1 || end[n] != '\n' ||
        at_ms <= 0)
        unreadable(e, "a line is not as Grapnel writes it");
    end[n] = 0; /* end + 1 has n bytes, of which the last is the newline */
    if (at_ms >= before_ms)
        put(e, e->count, end + 1, at_ms); /* sorted when all are read */
    else
        *stale = true;
}

static int by_id(const void *left, const void *right)
{
    const struct one *a = left, *b = right;

    return strcmp(a->id, b->id);
}

/* A new file without the lines that were dropped, in place of the old one. */
static void write_again(const struct ended *e)
{
    char *path = gr_printf("%s.new", e->path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = f;

    for (size_t i = 0; i < e->count && good; i++)
        good = fprintf(f, "%" PRId64 " %s\n", e->all[i].at_ms, e->all[i].id) >
               0;
    good = good && fflush(f) == 0 && fsync(fd) == 0;
    if (f)
        good = fclose(f) == 0 && good;
    if (!good || rename(path, e->path) != 0 || !sync_folder(e->folder))
        unreadable(e, strerror(errno));
    free(path);
}

struct ended *ended_open(const char *state_dir, int64_t before_ms)
{
    struct ended *e = gr_alloc(sizeof *e);
    char line[LINE_BYTES];
    bool stale = false;
    FILE *f;

    e->folder = gr_strdup(state_dir);
    e->path = gr_printf("%s/ended", state_dir);
    f = fopen(e->path, "re");
    if (!f && errno == ENOENT)
        return e;
    if (!f)
        unreadable(e, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        if (!strchr(line, '\n') && feof(f))
            stale = true; /* the process died while it wrote the line */
        else
            read_line(e, line, before_ms, &stale);
    }
    if (ferror(f))
        unreadable(e, strerror(errno));
    fclose(f);
    if (e->count)
        qsort(e->all, e->count, sizeof *e->all, by_id);
    if (stale)
        write_again(e);
    return e;
}

void ended_close(struct ended *e)
{
    if (!e)
        return;
    free(e->all);
    free(e->path);
    free(e->folder);
    free(e);
}

/* ---- write ---- */

gr_rc ended_add(struct ended *e, const char *id, size_t max, int64_t now_ms,
                char why[200])
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%" PRId64 " %s\n", now_ms, id), fd;
    off_t before;
    bool good;

    if (ended_at(e, id))
        return GR_OK;
    if (e->count >= max || strlen(id) > ENDED_ID_BYTES) {
        snprintf(why, 200, "%.100s has %zu lines: no more are possible",
                 e->path, e->count);
        return GR_REFUSE;
    }
    fd = open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    before = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    good = before >= 0 && write(fd, line, (size_t)n) == n && fsync(fd) == 0 &&
           (before > 0 || sync_folder(e->folder));
    if (!good) {
        snprintf(why, 200, "%.120s cannot be written: %s", e->path,
                 strerror(errno));
        if (before >= 0 && ftruncate(fd, before) != 0)
            unreadable(e, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    if (good)
        put(e, place_of(e, id), id, now_ms);
    return good ? GR_OK : GR_REFUSE;
}
