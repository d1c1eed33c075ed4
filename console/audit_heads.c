/* audit_heads: sends the newest hash of the audit chain of every process to the notifiers of
 * audit.notify, in one message once an hour, so that rows which are cut off later are missed.
 *
 * The console asks the processes over their control sockets. A process that does not reply is named
 * as missing; the message does not wait for it. The time of the last message is stored in the
 * transaction that stores the message: after a crash or a rollback it is made again, or was made. */
#include "audit_heads.h"
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include "process_client.h"
#include "processes.h"
#include <stdlib.h>
#include <string.h>

enum {
    REPLY_MS = 10 * 1000,
    TEXT_BYTES = 64 * 1024,
};

static const char cursor_name[] = "audit_heads_ms";

struct audit_heads {
    struct process_client *client;
    struct process_question *all; /* asked now */
    size_t count, open;
    int64_t due_ms; /* mono */
};

struct audit_heads *audit_heads_open(const char *run_dir, int64_t due_ms)
{
    struct audit_heads *h = gr_alloc(sizeof *h);

    h->client = process_client_open(run_dir);
    h->due_ms = due_ms;
    return h;
}

static void forget(struct audit_heads *h)
{
    for (size_t i = 0; i < h->count; i++) {
        process_client_cancel(h->client, &h->all[i]);
        process_question_fini(&h->all[i]);
    }
    free(h->all);
    h->all = NULL;
    h->count = h->open = 0;
}

void audit_heads_close(struct audit_heads *h)
{
    if (!h)
        return;
    forget(h);
    process_client_close(h->client);
    free(h);
}

int audit_heads_fd(const struct audit_heads *h)
{
    return process_client_fd(h->client);
}

/* Whether an hour has passed since the last message, or the clock was set back. */
static bool is_due(struct console *c)
{
    int64_t sent_ms, now = c->daemon.loop.now_ms;

    return !store_cursor(&c->store, cursor_name, &sent_ms) || sent_ms > now ||
           now - sent_ms >= HOUR_MS;
}

static void ask_all(struct console *c, struct audit_heads *h)
{
    struct processes p;

    processes_in(c->daemon.settings->run_dir, &p);
    h->all = gr_alloc((p.count + 1) * sizeof *h->all);
    h->count = h->open = p.count;
    for (size_t i = 0; i < p.count; i++)
        process_client_ask(h->client, &h->all[i], p.names[i], "audit_head",
                           NULL, NULL, c->daemon.loop.mono_ms, REPLY_MS, false);
    processes_fini(&p);
}

/* ---- the message ---- */

static void add_process(const struct process_question *q, struct buf *text,
                        json_t *list)
{
    const char *head = json_string_value(json_object_get(q->reply, "head"));

    if (head)
        buf_printf(text, "%s\n", head);
    else
        buf_printf(text, "%s: %s\n", q->name,
                   q->end == QUESTION_REPLIED ? "no audit rows yet"
                                              : "no reply");
    json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "process", q->name,
                                          "reached", q->end == QUESTION_REPLIED,
                                          "head", json_text_or_null(head)));
}

static void send_all(struct console *c, const struct audit_heads *h)
{
    const struct settings *s = c->daemon.settings;
    struct notification_row row = {.made_ms = c->daemon.loop.now_ms,
                                   .next_ms = c->daemon.loop.now_ms,
                                   .severity = "info",
                                   .state = "published",
                                   .alerts = "audit_heads",
                                   .subject = "[Grapnel] audit heads"};
    json_t *list = json_array(), *doc;
    char id[40], *body;
    struct buf text;

    buf_init(&text, TEXT_BYTES);
    buf_puts(&text, "Newest hashes of the audit chains; keep them for `grapnel "
                    "audit verify --head`:\n");
    for (size_t i = 0; i < h->count; i++)
        add_process(&h->all[i], &text, list);
    for (size_t i = 0; i < s->audit.notify.count; i++) {
        notification_id(c, id);
        doc = json_pack("{s:i, s:s, s:o, s:o, s:[], s:O}", "version", 1, "id",
                        id, "time", json_time(row.made_ms), "text",
                        json_text_of(text.data), "alerts", "audit_heads", list);
        body = json_dumps(doc, JSON_COMPACT);
        row.id = id;
        row.notifier = s->audit.notify.items[i];
        row.text = text.data;
        row.body = body;
        store_notification_add(&c->store, &row);
        json_decref(doc);
        free(body);
    }
    store_cursor_set(&c->store, cursor_name, row.made_ms);
    buf_fini(&text);
    json_decref(list);
}

/* ---- the turn ---- */

int audit_heads_work(struct console *c)
{
    struct audit_heads *h = c->heads;
    int64_t now = c->daemon.loop.mono_ms;
    int ms = process_client_run(h->client, now);

    while (process_client_ended(h->client))
        h->open--;
    if (h->count && !h->open) {
        send_all(c, h);
        forget(h);
    }
    if (now < h->due_ms)
        return loop_sooner(ms, h->due_ms - now < MINUTE_MS
                                   ? (int)(h->due_ms - now)
                                   : (int)MINUTE_MS);
    h->due_ms = now + MINUTE_MS;
    if (!c->daemon.settings->audit.notify.count || h->count || !is_due(c))
        return loop_sooner(ms, (int)MINUTE_MS);
    ask_all(c, h);
    return 0;
}
