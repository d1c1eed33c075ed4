/* turn: what one transaction changed in a SQLite file, in the one form that is hashed, sent and applied. Pure.
 *
 * A turn has a number from 1, without a gap. Its form: history (16), n (8), size of the file in pages after it (4), bytes of a page (4),
 * number of pages (4), then for each page, ascending: its number (4) and its image. Numbers are little-endian.
 * The chain of a turn is SHA-256(chain of the turn before it ‖ its form), so it names the whole content of a file. Source:
 * docs/decisions/0126. */
#ifndef REPLICATION_TURN_H
#define REPLICATION_TURN_H

#include "alloc.h"
#include "rc.h"

enum { HISTORY_BYTES = 16, CHAIN_BYTES = 32 };

/* Which content a file has. Two files with the same position are the same file. */
struct position {
    uint8_t history[HISTORY_BYTES];
    int64_t n; /* of the last turn in it; 0: none since the history began */
    uint8_t chain[CHAIN_BYTES];
};

bool position_equal(const struct position *a, const struct position *b);

struct turn_head {
    uint8_t history[HISTORY_BYTES];
    int64_t n;
    uint32_t size_pages;
    uint32_t page_bytes;
    uint32_t page_count;
};

/* The page with the byte at 1 GiB that SQLite locks. It has no content, and no turn has it. */
uint32_t turn_locked_page(uint32_t page_bytes);

uint64_t turn_bytes(const struct turn_head *head); /* of its form */
/* Writes the head; then call turn_put_page() page_count times, numbers ascending. */
void turn_put_head(struct buf *form, const struct turn_head *head);
void turn_put_page(struct buf *form, uint32_t page, const void *image,
                   uint32_t page_bytes);

/* Reads a form and checks all of it: sizes, that numbers ascend and are not above size_pages, that nothing follows. A turn without pages is
 * allowed. */
GR_MUST_CHECK gr_rc turn_read(struct bytes form, struct turn_head *head);
/* The i-th page of a form that turn_read() has accepted; the image belongs to `form`. */
const uint8_t *turn_page(struct bytes form, const struct turn_head *head,
                         uint32_t i, uint32_t *page);

/* Moves the position past this turn: n + 1, the next chain. */
void position_next(struct position *at, struct bytes form);

#endif
