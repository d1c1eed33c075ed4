/* stream: GET /stream: begins a stream of server-sent events. */
#include "api_request.h"
#include "commands.h"
#include "live.h"
#include <stdlib.h>
#include <string.h>

static void leave(void *stream)
{
    live_leave(stream);
}

static int64_t read_stream(void *self, char *to, size_t max)
{
    struct api_request *r = self;

    return live_read(r->state, to, max);
}

/* "event,alert"; 0: a word is unknown. */
static unsigned kinds_of(const char *words)
{
    static const struct {
        const char *word;
        unsigned kind;
    } all[] = {{"event", LIVE_EVENT},
               {"attempt", LIVE_ATTEMPT},
               {"alert", LIVE_ALERT}};
    unsigned kinds = 0;

    if (!words)
        return LIVE_ALL;
    for (;; words++) {
        size_t n = strcspn(words, ","), i = 0;

        while (i < COUNT_OF(all) && (strlen(all[i].word) != n ||
                                     strncmp(all[i].word, words, n) != 0))
            i++;
        if (i == COUNT_OF(all))
            return 0;
        kinds |= all[i].kind;
        words += n;
        if (!*words)
            return kinds;
    }
}

static const char *text_of(const struct api_request *r, const char *name)
{
    return json_string_value(json_object_get(r->args, name));
}

void stream_begin(struct api_request *r)
{
    struct live_filter filter = {
        .kinds = kinds_of(text_of(r, "kinds")),
        .workspace = text_of(r, "workspace"),
        .endpoint = text_of(r, "endpoint"),
        .source = text_of(r, "source"),
        .tenant = api_is_tenant(r) ? r->actor.workspace : NULL,
        .tenant_max = r->api->daemon->settings->tenants.streams};
    bool checked = digest_find(&r->api->daemon->settings->console.tokens,
                               r->digest, &(struct api_actor){.role = 0});
    const char *last_id;
    struct live_stream *s;
    int count;

    last_id = web_header(r->web, "Last-Event-ID", &count);
    if (!filter.kinds) {
        api_fail(r, WEB_INVALID_ARGUMENT, "kinds",
                 "kinds: write event, attempt and alert, or some of them, with "
                 "commas between them");
        return;
    }
    r->web->type = "text/event-stream";
    r->web->stream = read_stream;
    r->web->stream_bytes = WEB_STREAM_OPEN;
    switch (live_join(r->api->live, r->web, &filter, &r->actor,
                      checked ? "" : r->digest, count == 1 ? last_id : NULL,
                      json_integer_value(json_object_get(r->args, "seconds")),
                      &s)) {
    case LIVE_JOINED:
        r->state = s;
        r->state_free = leave;
        api_send(r);
        return;
    case LIVE_FULL:
        web_add_header(r->web, "Retry-After", "10");
        api_fail(
            r, WEB_BUSY, NULL,
            "there are too many streams: at most 100, and 50 of workspaces");
        return;
    case LIVE_TENANT_FULL:
        web_add_header(r->web, "Retry-After", "10");
        api_fail(r, WEB_RATE_LIMITED, NULL,
                 "this workspace has %lld streams: close one",
                 (long long)filter.tenant_max);
        return;
    default:
        web_add_header(r->web, "Retry-After", "10");
        api_fail(r, WEB_RATE_LIMITED, NULL,
                 "this token has 10 streams: close one");
    }
}
