/* search_filters: for each block of FILTER_EVENTS event numbers a filter of their sources, types,
 * workspaces and endpoints, and the range of their receive times.
 *
 * A search for something rare skips all blocks that can't contain it, so that its time
 * does not grow with the number of stored events. A block's row is written when its last
 * number was used; later changes of its events are added. A block without a row may contain
 * anything.
 *
 * Rows are in the turn's transaction; after a rolled back turn call
 * search_filters_undo(). */
#ifndef SEQUENCER_SEARCH_FILTERS_H
#define SEQUENCER_SEARCH_FILTERS_H

#include "dedupe.h"
#include "sequencer.h"

enum { FILTER_EVENTS = 1024 };

enum filter_kind {
    FILTER_SOURCE = 's',
    FILTER_TYPE = 't',
    FILTER_WORKSPACE = 'w',
    FILTER_ENDPOINT = 'e',
};

/* What a search looks for. */
struct filter_query {
    struct key names[5];
    int count;
    int64_t since_ms, until_ms; /* the latter is not included */
};

struct search_filters *search_filters_open(struct sequencer *q);
void search_filters_close(struct search_filters *k);
void search_filters_undo(struct search_filters *k);

/* Once a turn: write a filter that is due. Returns the ms until the next is due; -1: none is
 * due. */
int search_filters_work(struct search_filters *k);
/* Once a second: delete the rows of blocks whose events are deleted. */
void search_filters_tidy(struct search_filters *k);

/* An event has another type or workspace, or one more endpoint; its block may be written
 * already. */
void search_filters_note(struct search_filters *k, int64_t event,
                         enum filter_kind what, const char *name);
void search_filters_note_endpoint(struct search_filters *k, int64_t event,
                                  int64_t endpoint);

void filter_query_add(struct filter_query *b, enum filter_kind what,
                      const char *name);
void filter_query_add_endpoint(struct filter_query *b, int64_t endpoint);
/* May the block of this event have a match? */
bool search_filters_may_match(struct search_filters *k, int64_t event,
                              const struct filter_query *question);

#endif
