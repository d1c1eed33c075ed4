#include "log.h"
#include "alloc.h"
#include "clock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16 * 1024 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
    char process[64];
    enum log_level least;
    bool json;
    uint64_t dropped;
} out = {.process = "grapnel", .least = LOG_INFO};

void log_open(const char *process, enum log_level least, bool json)
{
    struct stat st;

    snprintf(out.process, sizeof out.process, "%s", process);
    out.least = least;
    out.json = json;
    /* A pipe is ours alone (the supervisor made it); a terminal is shared
     * with the shell and keeps its flags. */
    if (fstat(STDERR_FILENO, &st) == 0 && S_ISFIFO(st.st_mode))
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

static void put_json_text(struct buf *b, const char *s)
{
    buf_puts(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c < 0x20)
            buf_printf(b, "\\u%04x", c);
        else
            buf_put(b, s, 1);
    }
    buf_puts(b, "\"");
}

/* Text values are quoted only where a reader could otherwise go wrong. */
static void put_plain_text(struct buf *b, const char *s)
{
    bool plain = *s != 0;

    for (const char *p = s; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == '"' || *p == '=' || *p == '\\')
            plain = false;
    if (plain)
        buf_puts(b, s);
    else
        put_json_text(b, s);
}

static void put_field(struct buf *b, const char *key, const char *text,
                      long long number)
{
    if (out.json) {
        buf_puts(b, ",");
        put_json_text(b, key);
        buf_puts(b, ":");
    } else {
        buf_printf(b, " %s=", key);
    }
    if (!text)
        buf_printf(b, "%lld", number);
    else if (out.json)
        put_json_text(b, text);
    else
        put_plain_text(b, text);
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
        buf_printf(b, " %s", what);
    for (; f->key; f++)
        put_field(b, f->key, f->text, f->number);
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
    put_line(&b, level, event, what, fields);
    if (b.failed)
        buf_put(&b, "\n", 1);
    do
        n = write(STDERR_FILENO, b.data, b.len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        out.dropped++;
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
