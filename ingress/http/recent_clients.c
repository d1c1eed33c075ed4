/* recent_clients: counts each connection once in a span. */
#include "recent_clients.h"

/* The first span is 1: a connection without a request has 0. */
static int64_t span_of(int64_t mono_ms)
{
    return mono_ms / RECENT_CLIENTS_SPAN_MS + 1;
}

void recent_clients_note(struct recent_clients *r, struct recent_client *c,
                         int64_t mono_ms)
{
    int64_t span = span_of(mono_ms);

    if (r->span != span) {
        r->before = r->span + 1 == span ? r->count : 0;
        r->count = 0;
        r->span = span;
    }
    if (c->span == span)
        return;
    r->count++;
    c->before = c->span && c->span + 1 == span;
    c->span = span;
}

void recent_clients_leave(struct recent_clients *r,
                          const struct recent_client *c)
{
    if (!c->span)
        return;
    if (c->span == r->span) {
        r->count--;
        r->before -= c->before;
    } else if (c->span + 1 == r->span) {
        r->before--;
    }
}

int64_t recent_clients_count(const struct recent_clients *r, int64_t mono_ms)
{
    int64_t past = span_of(mono_ms) - r->span;

    if (past == 0)
        return r->count > r->before ? r->count : r->before;
    return past == 1 ? r->count : 0;
}
