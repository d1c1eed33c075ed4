/* blocks: what the events of each thousand numbers are about: a filter of their
 * sources, types, workspaces and endpoints, and the span of their receive times.
 * A search for what is rare passes over all blocks that can't have it, so that
 * its time does not grow with what is kept. A block's row is written once, when
 * its last number was given; what one of its events becomes later is added. A
 * block without a row may have anything.
 *
 * Rows are in the turn's transaction; after a rolled back turn call
 * blocks_undo(). */
#ifndef SEQUENCER_BLOCKS_H
#define SEQUENCER_BLOCKS_H

#include "dedupe.h"
#include "sequencer.h"

enum { BLOCK_EVENTS = 1024 };

enum block_name {
    BLOCK_SOURCE = 's',
    BLOCK_TYPE = 't',
    BLOCK_WORKSPACE = 'w',
    BLOCK_ENDPOINT = 'e',
};

/* What a search is about. */
struct block_question {
    struct key names[4];
    int count;
    int64_t since_ms, until_ms; /* until is not included */
};

struct blocks *blocks_open(struct sequencer *q);
void blocks_close(struct blocks *k);
void blocks_undo(struct blocks *k);

/* Once a turn: write one that is due. Returns ms until there is more to do; -1:
 * there is none. */
int blocks_work(struct blocks *k);
/* Now and then: forget those whose events are gone. */
void blocks_tidy(struct blocks *k);

/* An event has got another type or workspace, or an endpoint, since it came. */
void blocks_note(struct blocks *k, int64_t event, enum block_name what,
                 const char *name);
void blocks_note_endpoint(struct blocks *k, int64_t event, int64_t endpoint);

void block_ask(struct block_question *b, enum block_name what,
               const char *name);
void block_ask_endpoint(struct block_question *b, int64_t endpoint);
/* May the block of this event have such a one? */
bool blocks_may_have(struct blocks *k, int64_t event,
                     const struct block_question *question);

#endif
