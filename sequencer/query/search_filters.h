/* search_filters: for each block of FILTER_EVENTS numbers of events a filter of their
 * sources, types, workspaces and endpoints, and the range of their receive times.
 *
 * A search for something rare skips all blocks that can't contain it, so that its time
 * does not grow with the number of stored events. A block's row is written once, when its
 * last number was given; later changes of its events are added. A block without a row may
 * contain anything.
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

/* What a search is about. */
struct filter_query {
    struct key names[4];
    int count;
    int64_t since_ms, until_ms; /* until is not included */
};

struct search_filters *search_filters_open(struct sequencer *q);
void search_filters_close(struct search_filters *k);
void search_filters_undo(struct search_filters *k);

/* Once a turn: write one that is due. Returns ms until there is more to do; -1:
 * there is none. */
int search_filters_work(struct search_filters *k);
/* Now and then: delete the rows of blocks whose events are deleted. */
void search_filters_tidy(struct search_filters *k);

/* An event has another type or workspace, or one more endpoint, since its block was
 * written. */
void search_filters_note(struct search_filters *k, int64_t event,
                         enum filter_kind what, const char *name);
void search_filters_note_endpoint(struct search_filters *k, int64_t event,
                                  int64_t endpoint);

void filter_query_add(struct filter_query *b, enum filter_kind what,
                      const char *name);
void filter_query_add_endpoint(struct filter_query *b, int64_t endpoint);
/* May the block of this event have such a one? */
bool search_filters_may_match(struct search_filters *k, int64_t event,
                              const struct filter_query *question);

#endif
