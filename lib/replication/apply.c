/* apply: writes the pages of turns into a file, and keeps its position. */
#include "apply.h"
#include "file_io.h"
#include "file_view.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct applied {
    char *path;
    int fd;
    int64_t bytes;       /* of the file */
    uint32_t page_bytes; /* 0: the file is empty */
    struct stored_position
        stored; /* `at` is ahead of the disk until applied_sync() */
};

static struct applied *make(const char *db_path, int fd,
                            const struct stored_position *stored)
{
    struct applied *a = gr_alloc(sizeof *a);
    struct stat st;

    a->path = gr_strdup(db_path);
    a->fd = fd;
    a->stored = *stored;
    a->bytes = fstat(fd, &st) == 0 ? st.st_size : 0;
    return a;
}

bool position_is_empty(const struct position *at)
{
    static const uint8_t none[CHAIN_BYTES];

    return at->n == 0 && memcmp(at->chain, none, CHAIN_BYTES) == 0;
}

struct applied *applied_open(const char *db_path)
{
    struct stored_position stored;
    struct file_view *view;
    struct applied *a;
    int fd;

    if (!position_file_read(db_path, &stored) || stored.active)
        return NULL;
    fd = open(db_path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    a = make(db_path, fd, &stored);
    if (position_is_empty(&stored.at) &&
        file_set_size(db_path, fd, 0) ==
            GR_OK) /* part of turn 1 may be there */
        a->bytes = 0;
    view = file_view_open(db_path);
    if (view)
        a->page_bytes = file_view_page_bytes(view);
    file_view_close(view);
    if (a->bytes == 0 || a->page_bytes)
        return a;
    applied_close(a);
    return NULL;
}

struct applied *applied_create(const char *db_path, const struct position *at)
{
    struct stored_position stored = {.at = *at};
    int fd = open(db_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct applied *a;

    if (fd < 0 && !file_is_full(errno))
        die(EXIT_STORAGE, "%s: cannot be created: %s", db_path,
            strerror(errno));
    if (fd < 0)
        return NULL;
    a = make(db_path, fd, &stored);
    if (a->bytes > 0) /* content_read() has found none */
        die(EXIT_STORAGE, "%s: has appeared meanwhile", db_path);
    folder_sync(db_path);
    if (position_file_write(db_path, &stored) == GR_OK)
        return a;
    applied_close(a);
    return NULL;
}

void applied_close(struct applied *a)
{
    if (!a)
        return;
    close(a->fd);
    free(a->path);
    free(a);
}

const struct position *applied_position(const struct applied *a)
{
    return &a->stored.at;
}

bool applied_is_whole(const struct applied *a)
{
    return a->stored.at.n >= a->stored.whole_from;
}

GR_PRINTF(2, 3) static gr_rc refuse(char why[200], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, 200, fmt, ap);
    va_end(ap);
    return GR_REFUSE;
}

static gr_rc full(const struct applied *a, char why[200])
{
    snprintf(why, 200, "%s: the disk is full", a->path);
    return GR_AGAIN;
}

/* Pages that a turn with the whole content of a file has. */
static uint32_t all_pages(const struct turn_head *head)
{
    return head->size_pages -
           (head->size_pages >= turn_locked_page(head->page_bytes));
}

static gr_rc check(const struct applied *a, struct bytes form,
                   const uint8_t chain[CHAIN_BYTES], struct turn_head *head,
                   struct position *after, char why[200])
{
    *after = a->stored.at;
    if (turn_read(form, head) != GR_OK)
        return refuse(why, "the row after turn %lld of the log is not a turn",
                      (long long)a->stored.at.n);
    if (memcmp(head->history, after->history, HISTORY_BYTES) != 0 ||
        head->n != after->n + 1)
        return refuse(why,
                      "turn %lld of the log does not follow turn %lld of the "
                      "file",
                      (long long)head->n, (long long)after->n);
    position_next(after, form);
    if (memcmp(after->chain, chain, CHAIN_BYTES) != 0)
        return refuse(why,
                      "turn %lld of the log follows another content than that "
                      "of the file (its chain differs)",
                      (long long)head->n);
    if (a->page_bytes && a->page_bytes != head->page_bytes)
        return refuse(why, "turn %lld has pages of %u bytes, the file of %u",
                      (long long)head->n, head->page_bytes, a->page_bytes);
    if (!a->page_bytes && head->page_count != all_pages(head))
        return refuse(why,
                      "turn %lld has %u of %u pages, and the file is empty",
                      (long long)head->n, head->page_count, head->size_pages);
    return GR_OK;
}

static gr_rc write_pages(struct applied *a, struct bytes form,
                         const struct turn_head *head)
{
    int64_t bytes = (int64_t)head->size_pages * head->page_bytes;

    for (uint32_t i = 0; i < head->page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page(form, head, i, &page);

        if (file_write_at(a->path, a->fd, image, head->page_bytes,
                          (int64_t)(page - 1) * head->page_bytes) != GR_OK)
            return GR_AGAIN;
    }
    if (a->bytes != bytes && file_set_size(a->path, a->fd, bytes) != GR_OK)
        return GR_AGAIN;
    a->bytes = bytes;
    return GR_OK;
}

gr_rc applied_turn(struct applied *a, struct bytes form,
                   const uint8_t chain[CHAIN_BYTES], char why[200])
{
    struct turn_head head;
    struct position after;
    gr_rc rc = check(a, form, chain, &head, &after, why);

    if (rc != GR_OK)
        return rc;
    if (write_pages(a, form, &head) != GR_OK)
        return full(a, why);
    a->page_bytes = head.page_bytes;
    a->stored.at = after;
    return GR_OK;
}

gr_rc applied_sync(struct applied *a, char why[200])
{
    file_sync(a->path, a->fd);
    if (position_file_write(a->path, &a->stored) != GR_OK)
        return full(a, why);
    return GR_OK;
}

gr_rc applied_note_holder(struct applied *a, const uint8_t holder[HOLDER_BYTES])
{
    memcpy(a->stored.holder, holder, HOLDER_BYTES);
    return position_file_write(a->path, &a->stored);
}

const uint8_t *applied_holder(const struct applied *a)
{
    return a->stored.holder;
}

gr_rc applied_hand_over(struct applied *a)
{
    struct stored_position stored = a->stored;

    stored.active = true;
    return position_file_write(a->path, &stored);
}
