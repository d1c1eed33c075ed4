/* page: reads one page of a provider's list. Pure; what it reads is hostile. */
#ifndef RECONCILE_PAGE_H
#define RECONCILE_PAGE_H

#include "alloc.h"
#include "settings.h"

enum {
    PAGE_ITEMS_MAX = 10000,
    PROVIDER_ID_MAX_BYTES = 1024,
    PAGE_WHY_BYTES = 300
};

/* One event of the list. */
struct listed {
    struct bytes text; /* its JSON, as it was sent; in the page */
    char *id;          /* the provider's */
    int64_t ms;        /* its time */
    bool missing;      /* it never arrived */
};

struct page {
    struct listed *items;
    size_t count;
    size_t unusable; /* items without an id or a time */
    char *next;      /* what asks for the next page; NULL: it is the last */
};

/* Reads the page, which the items borrow. `position` is what asked for it, "" for the first one; `link` is
 * its header Link, `url` the URL of the list. GR_REFUSE: `why` says what is wrong with it. Call
 * page_fini() in any case. */
GR_MUST_CHECK gr_rc page_read(struct page *p, const struct source *source,
                              struct bytes body, const char *position,
                              const char *link, const char *url,
                              char why[PAGE_WHY_BYTES]);
void page_fini(struct page *p);

/* The URL of a page, the caller's: the list from `from_ms` to `to_ms`, which are whole seconds, at
 * `position`. */
char *page_url(const struct source *source, int64_t from_ms, int64_t to_ms,
               const char *position);
/* The URL of one event of the list; NULL: it has no key. The caller's. */
char *page_event_url(const struct source *source, const struct listed *item);
/* The header with the token, the caller's. */
char *page_credentials(const struct source *source, const char *token);

/* What the provider's request for this event would have been: packed headers (without those that are
 * secret) and the body, which `text` has, or of which it is a part. GR_REFUSE: `why`. */
GR_MUST_CHECK gr_rc page_event(const struct source *source, struct bytes text,
                               struct buf *headers, struct bytes *body,
                               char why[PAGE_WHY_BYTES]);

#endif
