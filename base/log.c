#include "log.h"
#include "alloc.h"
#include "clock.h"
#include "json_text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 32 * 1024,
    LINE_END_BYTES = 16,    /* of those, for `cut` and the line's end */
    VALUE_MAX_BYTES = 2048, /* a longer text is cut */
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
    char process[64];
    enum log_level least;
    bool json, torn; /* torn: a pipe took only the start of the last line */
    uint64_t dropped;
} out = {.process = "grapnel", .least = LOG_INFO};

void log_open(const char *process, enum log_level least, bool json)
{
    struct stat st;

    snprintf(out.process, sizeof out.process, "%s", process);
    out.least = least;
    out.json = json;
    /* A pipe or socket is ours alone (the supervisor made it); a terminal is
     * shared with the shell and keeps its flags. */
    if (fstat(STDERR_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        fcntl(STDERR_FILENO, F_SETFL,
              fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);
}

bool log_wants(enum log_level level)
{
    return level >= out.least;
}

uint64_t log_dropped_count(void)
{
    return out.dropped;
}

/* Strangers' bytes become valid JSON, and never a line of their own. */
static void put_escaped(struct buf *b, const char *s)
{
    buf_puts(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(b, "\\u%04x", c);
        else
            buf_put(b, s, 1);
    }
    buf_puts(b, "\"");
}

/* Strangers' bytes become valid JSON, and never a line of their own. */
static void put_json_text(struct buf *b, const char *s)
{
    json_t *repaired = NULL;

    if (!utf8_valid((struct bytes){s, strlen(s)}))
        repaired = json_text_of(s);
    put_escaped(b, repaired ? json_string_value(repaired) : s);
    json_decref(repaired);
}

/* Text values are quoted only where a reader could otherwise go wrong. */
static void put_plain_text(struct buf *b, const char *s)
{
    bool plain = *s != 0;

    for (const char *p = s; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f ||
            *p == '"' || *p == '=' || *p == '\\')
            plain = false;
    if (plain)
        buf_puts(b, s);
    else
        put_json_text(b, s);
}

static void put_value(struct buf *b, const char *text, long long number)
{
    char *start = NULL;

    if (!text) {
        buf_printf(b, "%lld", number);
        return;
    }
    if (strlen(text) > VALUE_MAX_BYTES)
        text = start = gr_strndup(text, VALUE_MAX_BYTES);
    if (out.json)
        put_json_text(b, text);
    else
        put_plain_text(b, text);
    free(start);
}

/* false: there is no room for this field in the line. */
static bool put_field(struct buf *b, const char *key, const char *text,
                      long long number)
{
    size_t at = b->len;

    if (out.json) {
        buf_puts(b, ",");
        put_json_text(b, key);
        buf_puts(b, ":");
    } else {
        buf_printf(b, " %s=", key);
    }
    put_value(b, text, number);
    if (!b->failed && b->len <= LINE_MAX_BYTES - LINE_END_BYTES)
        return true;
    b->failed = false;
    b->len = at;
    return false;
}

/* What happened, in text: words, whatever a path in them contains. */
static void put_words(struct buf *b, const char *what)
{
    buf_puts(b, " ");
    for (; *what; what++)
        buf_put(b, (unsigned char)*what < ' ' || *what == 0x7f ? " " : what, 1);
}

static void put_line(struct buf *b, enum log_level level, const char *event,
                     const char *what, const struct log_field *f)
{
    char at[RFC3339_BYTES];

    rfc3339(at, now_ms());
    if (out.json)
        buf_printf(b, "{\"time\":\"%s\",\"level\":\"%s\",\"process\":\"%s\"",
                   at, level_names[level], out.process);
    else
        buf_printf(b, "%s %s %s", at, level_names[level], out.process);
    if (event)
        put_field(b, "event", event, 0);
    if (out.json)
        put_field(b, "what", what, 0);
    else
        put_words(b, what);
    for (; f->key; f++)
        if (!put_field(b, f->key, f->text, f->number)) {
            buf_puts(b, out.json ? ",\"cut\":1" : " cut=1");
            break;
        }
    buf_puts(b, out.json ? "}\n" : "\n");
}

void log_write(enum log_level level, const char *event, const char *what,
               const struct log_field *fields)
{
    struct buf b;
    ssize_t n;

    if (!log_wants(level))
        return;
    buf_init(&b, LINE_MAX_BYTES);
    if (out.torn)
        buf_puts(&b, "\n");
    put_line(&b, level, event, what, fields);
    do
        n = write(STDERR_FILENO, b.data, b.len);
    while (n < 0 && errno == EINTR);
    if (n < (ssize_t)b.len)
        out.dropped++;
    if (n > 0)
        out.torn = n < (ssize_t)b.len;
    buf_fini(&b);
}

void die(int code, const char *fmt, ...)
{
    char what[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    log_error(NULL, what);
    _exit(code);
}
