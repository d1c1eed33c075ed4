/* cut: compares the file, its write-ahead log and its position, and removes what the engine's log does not have. */
#include "cut.h"
#include "apply.h"
#include "file_io.h"
#include "file_view.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What was found, and up to which frame the log is to be copied for each of the two positions. */
struct found {
    struct content content;
    struct file_view *view; /* NULL: there is no file */
    bool has_stored;
    uint32_t keep_last, keep_before;
    uint32_t row_page;
};

GR_PRINTF(2, 3) static gr_rc refuse(char why[200], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, 200, fmt, ap);
    va_end(ap);
    return GR_REFUSE;
}

static bool same_history(const uint8_t a[HISTORY_BYTES],
                         const uint8_t b[HISTORY_BYTES])
{
    return memcmp(a, b, HISTORY_BYTES) == 0;
}

/* ---- turns in the log ---- */

/* The commits that change the page of the row, oldest first: the frames that end them. */
struct turns {
    uint32_t *ends;
    size_t count;
};

static struct turns find_turns(const struct file_view *v, uint32_t row_page)
{
    struct turns t = {
        .ends = gr_alloc((file_view_frames(v) + 1) * sizeof *t.ends)};
    bool changes = false;

    for (uint32_t f = 1; f <= file_view_frames(v); f++) {
        changes |= file_view_frame_page(v, f) == row_page;
        if (!file_view_frame_size(v, f))
            continue;
        if (changes)
            t.ends[t.count++] = f;
        changes = false;
    }
    return t;
}

/* Removes the commits that made the table, before the first turn: they have no row yet. */
static void drop_first(struct turns *t, size_t n)
{
    t->count -= n;
    memmove(t->ends, t->ends + n, t->count * sizeof *t->ends);
}

/* The chain of the last turn, of its frames. false: it is larger than a turn may be. */
static bool last_chain(const struct file_view *v, uint32_t after, uint32_t end,
                       const struct position *before, struct position *last)
{
    size_t count;
    uint64_t *images = file_view_images(v, after, end, &count);
    uint32_t page_bytes = file_view_page_bytes(v);
    uint8_t *image = gr_alloc(page_bytes);
    struct turn_head head = {.n = before->n + 1,
                             .size_pages = file_view_frame_size(v, end),
                             .page_bytes = page_bytes,
                             .page_count = (uint32_t)count};
    struct buf form;
    bool good = true;

    memcpy(head.history, before->history, HISTORY_BYTES);
    buf_init(&form, APPLY_FORM_MAX_BYTES);
    turn_put_head(&form, &head);
    for (size_t i = 0; i < count && good; i++) {
        good = file_view_image(v, (uint32_t)images[i], image);
        turn_put_page(&form, (uint32_t)(images[i] >> 32), image, page_bytes);
    }
    good = good && !form.failed;
    *last = *before;
    if (good)
        position_next(last, (struct bytes){form.data, form.len});
    buf_fini(&form);
    free(image);
    free(images);
    return good;
}

/* ---- do the parts belong together? ---- */

/* The row of the file alone, without its log, must be of the turn before the log's first one, or of one that the checkpoint has copied. (It leaves out a page
 * whose last image it may not copy yet, so the row may be older than other pages.) */
static gr_rc compare_file(struct found *f, const struct turns *t,
                          const struct replicated_row *first, char why[200])
{
    struct replicated_row file, there;
    size_t i;

    file_view_row_at(f->view, 0, f->row_page, &file);
    if (file.state == ROW_NONE && first->n > 1 && !f->has_stored)
        return refuse(why,
                      "the write-ahead log begins with turn %lld, and the file "
                      "has no turn: the log does not belong to it",
                      (long long)first->n);
    if (file.state != ROW_FOUND)
        return GR_OK;
    if (first->n == 1 && !same_history(file.history, first->history))
        return GR_OK; /* of the history before */
    if (!same_history(file.history, first->history) || file.n < first->n - 1 ||
        file.n > f->content.n)
        return refuse(why,
                      "the file has turn %lld and its write-ahead log turns "
                      "%lld to %lld: the log does not belong to it",
                      (long long)file.n, (long long)first->n,
                      (long long)f->content.n);
    if (file.n < first->n)
        return GR_OK;
    i = (size_t)(file.n - first->n);
    file_view_row_at(f->view, t->ends[i], f->row_page, &there);
    if (there.state != ROW_FOUND || there.n != file.n ||
        memcmp(there.chain, file.chain, CHAIN_BYTES) != 0)
        return refuse(why,
                      "turn %lld of the file follows another content than the "
                      "same turn of its write-ahead log",
                      (long long)file.n);
    return GR_OK;
}

/* A position that SQLite has not written after must be one of the two that a cut ends with: it was interrupted before it removed the log. */
static gr_rc compare_position(const struct found *f, char why[200])
{
    const struct content *c = &f->content;
    const struct position *p = &c->stored.at;

    if (!f->has_stored)
        return GR_OK;
    if (!same_history(p->history, c->before.history) || p->n > c->n)
        return refuse(why,
                      "the position file has turn %lld, the file and its "
                      "write-ahead log end with turn %lld%s: an older file was "
                      "put here, or an older log",
                      (long long)p->n, (long long)c->n,
                      same_history(p->history, c->before.history)
                          ? ""
                          : " of another history");
    if (p->n == c->before.n && !position_equal(p, &c->before))
        return refuse(why,
                      "turn %lld of the position file has another content than "
                      "the one before the last turn of the write-ahead log",
                      (long long)p->n);
    if (!c->stored.active && !position_equal(p, &c->before) &&
        !(c->has_last && position_equal(p, &c->last)))
        return refuse(why,
                      "a standby wrote the file at turn %lld, and a "
                      "write-ahead log that ends with turn %lld is beside it",
                      (long long)p->n, (long long)c->n);
    return GR_OK;
}

/* The first commit with a row, and its turn. */
static gr_rc first_turn(struct found *f, struct turns *t,
                        struct replicated_row *first, char why[200])
{
    size_t i = 0;

    do
        file_view_row_at(f->view, t->ends[i], f->row_page, first);
    while (first->state != ROW_FOUND && ++i < t->count);
    if (i == t->count)
        return refuse(why, "no commit of the write-ahead log has the row "
                           "`replicated`");
    drop_first(t, i);
    return GR_OK;
}

/* The log has `t->count` turns, one at least, the last of which is `row`. */
static gr_rc read_turns(struct found *f, struct turns *t,
                        const struct replicated_row *row, char why[200])
{
    struct content *c = &f->content;
    struct replicated_row first;
    gr_rc rc = first_turn(f, t, &first, why);

    if (rc != GR_OK)
        return rc;
    if (row->n - first.n != (int64_t)t->count - 1 ||
        !same_history(row->history, first.history))
        return refuse(why,
                      "the write-ahead log has %zu commits for the turns %lld "
                      "to %lld",
                      t->count, (long long)first.n, (long long)row->n);
    c->n = row->n;
    c->has_before = true;
    c->before.n = row->n - 1;
    memcpy(c->before.history, row->history, HISTORY_BYTES);
    memcpy(c->before.chain, row->chain, CHAIN_BYTES);
    f->keep_last = t->ends[t->count - 1];
    f->keep_before = t->count > 1 ? t->ends[t->count - 2] : 0;
    c->has_last = last_chain(f->view, f->keep_before, f->keep_last, &c->before,
                             &c->last);
    rc = compare_file(f, t, &first, why);
    return rc == GR_OK ? compare_position(f, why) : rc;
}

/* The log has no turn; it is cut as a whole. `row`: of the file. */
static gr_rc read_file(struct found *f, const struct replicated_row *row,
                       char why[200])
{
    struct content *c = &f->content;
    const struct position *p = &c->stored.at;
    bool found = row->state == ROW_FOUND;

    if (!f->has_stored && !found)
        return refuse(why, row->state == ROW_NONE
                               ? "the file was never replicated"
                               : "the file cannot be read, and it has no "
                                 "position");
    if (f->has_stored && found &&
        (!same_history(p->history, row->history) ? p->n > 0 : row->n < p->n))
        return refuse(why,
                      "the position file has turn %lld, and the file turn %lld"
                      "%s: an older file was put here",
                      (long long)p->n, (long long)row->n,
                      same_history(p->history, row->history)
                          ? ""
                          : " of another history");
    if (f->has_stored && found && row->n == p->n + 1 &&
        same_history(p->history, row->history) &&
        memcmp(p->chain, row->chain, CHAIN_BYTES) != 0)
        return refuse(why,
                      "turn %lld of the file follows another content than that "
                      "in the position file",
                      (long long)row->n);
    if (f->has_stored && row->state == ROW_NONE && p->n > 0)
        return refuse(why,
                      "the position file has turn %lld, and the file was never "
                      "replicated: another file was put here",
                      (long long)p->n);
    c->n = f->has_stored ? p->n : row->n;
    if (f->has_stored && c->stored.active && found &&
        same_history(p->history, row->history))
        c->n = row->n;
    c->in_file = true;
    c->has_last = f->has_stored && p->n == c->n;
    c->last = *p;
    if (found && row->n == c->n &&
        !(f->has_stored && !same_history(p->history, row->history))) {
        c->has_before = true;
        c->before.n = row->n - 1;
        memcpy(c->before.history, row->history, HISTORY_BYTES);
        memcpy(c->before.chain, row->chain, CHAIN_BYTES);
    }
    return GR_OK;
}

static gr_rc read_parts(struct found *f, char why[200])
{
    uint32_t frames = file_view_frames(f->view);
    struct replicated_row row;
    struct turns turns = {0};
    gr_rc rc;

    if (!file_view_page_bytes(f->view))
        return refuse(why, "the file is not a database");
    if (!file_view_has_wal_header(f->view))
        return refuse(why, "the file is a backup, which has other content than "
                           "the replicated file");
    file_view_row(f->view, frames, &row);
    f->row_page = row.page;
    if (frames && row.state == ROW_UNREADABLE)
        return refuse(why, "the database cannot be read with its write-ahead "
                           "log");
    if (frames && row.page)
        turns = find_turns(f->view, row.page);
    rc = turns.count && row.state == ROW_FOUND
             ? read_turns(f, &turns, &row, why)
             : read_file(f, &row, why);
    free(turns.ends);
    return rc;
}

static gr_rc find(const char *db_path, struct found *f, char why[200])
{
    struct content *c = &f->content;
    gr_rc rc = GR_OK;

    *f = (struct found){.view = file_view_open(db_path)};
    f->has_stored = position_file_read(db_path, &c->stored);
    if (!f->has_stored)
        c->stored = (struct stored_position){0};
    c->exists = f->view != NULL;
    if (c->exists)
        rc = read_parts(f, why);
    return rc;
}

gr_rc content_read(const char *db_path, struct content *out, char why[200])
{
    struct found f;
    gr_rc rc = find(db_path, &f, why);

    *out = f.content;
    file_view_close(f.view);
    return rc;
}

/* ---- which of it the log has ---- */

const struct position *content_from(const struct content *c)
{
    return c->has_last && (c->in_file || !c->has_before) ? &c->last
                                                         : &c->before;
}

static enum content_match compare_first(const struct content *c,
                                        const struct position *from,
                                        struct bytes first,
                                        const uint8_t chain[CHAIN_BYTES],
                                        char why[200])
{
    struct position next = *from;
    struct turn_head head;

    if (turn_read(first, &head) != GR_OK || head.n != from->n + 1) {
        snprintf(why, 200, "the log does not have turn %lld any more",
                 (long long)from->n + 1);
        return CONTENT_TOO_OLD;
    }
    position_next(&next, first);
    if (memcmp(next.chain, chain, CHAIN_BYTES) != 0) {
        snprintf(why, 200,
                 "turn %lld of the log follows another content than that of "
                 "the file (its chain differs)",
                 (long long)next.n);
        return CONTENT_DIVERGED;
    }
    if (next.n == c->stored.at.n && !position_equal(&next, &c->stored.at)) {
        snprintf(why, 200,
                 "the log has lost turn %lld of the file, which was in it, and "
                 "has another one now",
                 (long long)next.n);
        return CONTENT_DIVERGED;
    }
    if (from == &c->last || (c->has_last && position_equal(&next, &c->last)))
        return CONTENT_IS_LAST;
    return CONTENT_IS_BEFORE;
}

enum content_match content_match(const struct content *c,
                                 const struct position *at, struct bytes first,
                                 const uint8_t chain[CHAIN_BYTES],
                                 char why[200])
{
    const struct position *from = content_from(c);
    int64_t was_in = c->in_file ? c->n : from->n;

    if (c->stored.at.n > was_in)
        was_in = c->stored.at.n;
    if (!same_history(at->history, from->history)) {
        snprintf(why, 200, "the log has another history");
        return CONTENT_DIVERGED;
    }
    if (at->n < was_in) {
        snprintf(why, 200,
                 "the log ends with turn %lld, and the file has turn %lld, "
                 "which was in it",
                 (long long)at->n, (long long)was_in);
        return CONTENT_AHEAD;
    }
    if (at->n > from->n)
        return compare_first(c, from, first, chain, why);
    if (position_equal(at, from))
        return from == &c->last ? CONTENT_IS_LAST : CONTENT_IS_BEFORE;
    snprintf(why, 200, "turn %lld has another content in the log",
             (long long)at->n);
    return CONTENT_DIVERGED;
}

/* ---- the cut ---- */

static gr_rc copy(const char *db_path, int fd, const struct file_view *v,
                  uint32_t frames)
{
    size_t count;
    uint64_t *images = file_view_images(v, 0, frames, &count);
    uint32_t page_bytes = file_view_page_bytes(v);
    uint8_t *image = gr_alloc(page_bytes);
    gr_rc rc = GR_OK;

    for (size_t i = 0; i < count && rc == GR_OK; i++) {
        if (!file_view_image(v, (uint32_t)images[i], image))
            die(EXIT_STORAGE, "%s-wal: cannot be read: %s", db_path,
                strerror(errno));
        rc = file_write_at(db_path, fd, image, page_bytes,
                           ((int64_t)(images[i] >> 32) - 1) * page_bytes);
    }
    if (rc == GR_OK)
        rc = file_set_size(
            db_path, fd, (int64_t)file_view_frame_size(v, frames) * page_bytes);
    free(image);
    free(images);
    return rc;
}

/* The file has what it shall have, and its position says so. */
static void remove_log(const char *db_path)
{
    char *wal = gr_printf("%s-wal", db_path),
         *shm = gr_printf("%s-shm", db_path);
    int fd = open(wal, O_RDWR | O_CLOEXEC);

    if (fd >= 0) {
        /* Emptied first: a name that is back after a power cut then has no frames. */
        if (file_set_size(wal, fd, 0) != GR_OK)
            die(EXIT_STORAGE, "%s: cannot be emptied: the disk is full", wal);
        file_sync(wal, fd);
        close(fd);
        unlink(wal);
    }
    unlink(shm);
    if (fd >= 0)
        folder_sync(db_path);
    free(wal);
    free(shm);
}

static gr_rc make_whole(const char *db_path, const struct found *f,
                        uint32_t keep, const struct position *to)
{
    struct stored_position stored = f->content.stored;
    int fd = open(db_path, O_RDWR | O_CLOEXEC);
    gr_rc rc = GR_OK;

    if (fd < 0)
        die(EXIT_STORAGE, "%s: cannot be opened: %s", db_path, strerror(errno));
    if (keep)
        rc = copy(db_path, fd, f->view, keep);
    if (rc == GR_OK)
        file_sync(db_path, fd); /* also what a killed active has copied */
    close(fd);
    stored.at = *to;
    stored.active = false;
    memset(stored.salts, 0, sizeof stored.salts);
    return rc == GR_OK ? position_file_write(db_path, &stored) : rc;
}

/* The checkpoint must not have copied the turn that is cut. It cannot have, but then the file would be a mixture of two times that no chain shows. */
static gr_rc check_not_copied(struct found *f, char why[200])
{
    struct replicated_row file;

    file_view_row_at(f->view, 0, f->row_page, &file);
    if (file.state == ROW_FOUND && file.n == f->content.n &&
        same_history(file.history, f->content.before.history))
        return refuse(why,
                      "turn %lld is not in the engine's log, and its pages are "
                      "in the file",
                      (long long)file.n);
    return GR_OK;
}

static gr_rc choose(struct found *f, const struct position *to, uint32_t *keep,
                    char why[200])
{
    const struct content *c = &f->content;

    if (c->has_last && position_equal(to, &c->last)) {
        *keep = f->keep_last;
        return GR_OK;
    }
    if (c->has_before && position_equal(to, &c->before)) {
        *keep = f->keep_before;
        /* Without frames of turn n it is in the log of the engine, and is applied again. */
        return f->keep_last ? check_not_copied(f, why) : GR_OK;
    }
    return refuse(why,
                  "the file ends with turn %lld, and not at this content "
                  "of turn %lld",
                  (long long)c->n, (long long)to->n);
}

gr_rc cut_to(const char *db_path, const struct position *to, char why[200])
{
    struct found f;
    uint32_t keep = 0;
    gr_rc rc = find(db_path, &f, why);

    if (rc == GR_OK && !f.view)
        rc = refuse(why, "there is no file");
    if (rc == GR_OK)
        rc = choose(&f, to, &keep, why);
    if (rc == GR_OK) {
        rc = make_whole(db_path, &f, keep, to);
        if (rc == GR_AGAIN)
            snprintf(why, 200, "%s: the disk is full", db_path);
    }
    file_view_close(f.view);
    if (rc == GR_OK)
        remove_log(db_path);
    return rc;
}

/* ---- set aside ---- */

static const char *const parts[] = {"", "-wal", "-position"};

static bool is_free(const char *base)
{
    bool taken = false;

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        char *name = gr_printf("%s%s", base, parts[i]);

        taken |= access(name, F_OK) == 0;
        free(name);
    }
    return !taken;
}

void set_aside(const char *db_path, const char *why)
{
    char *base = gr_printf("%s.diverged", db_path);
    char *shm = gr_printf("%s-shm", db_path);
    bool moved = false;

    for (int i = 2; !is_free(base); i++) {
        free(base);
        base = gr_printf("%s.diverged-%d", db_path, i);
    }
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        char *from = gr_printf("%s%s", db_path, parts[i]);
        char *to = gr_printf("%s%s", base, parts[i]);

        if (rename(from, to) == 0)
            moved = true;
        else if (errno != ENOENT)
            die(EXIT_STORAGE, "%s: cannot be renamed to %s: %s", from, to,
                strerror(errno));
        free(from);
        free(to);
    }
    unlink(shm);
    folder_sync(db_path);
    if (moved)
        log_error(NULL,
                  "the database is not what the engine's log has; it was "
                  "renamed, and a snapshot is taken instead",
                  LS("file", db_path), LS("renamed_to", base),
                  LS("reason", why));
    free(base);
    free(shm);
}
