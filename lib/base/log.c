/* log: writes log lines without blocking, limits how many name an event, and reopens its file. */
#include "log.h"
#include "alloc.h"
#include "clock.h"
#include "json_text.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 32 * 1024,
    LINE_END_BYTES = 16,    /* of the line, for `cut` and the line's end */
    VALUE_MAX_BYTES = 2048, /* a longer text is cut */
    OPEN_AGAIN_MS = 10 * 1000,
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
    char process[64];
    enum log_level min;
    bool json,
        torn; /* the last write put only the start of a line into the pipe */
    uint64_t dropped;
    int64_t mono_ms;
} out = {.process = "grapnel", .min = LEVEL_INFO};

/* For debug and info together, and for warnings: how many lines about events may still be
 * written in this second, and how many were suppressed. */
static struct {
    int64_t since_ms;
    int left[2];
    uint64_t suppressed[2];
} events = {.left = {LOG_EVENT_LINES, LOG_EVENT_LINES}};

/* Threads of base/ log too (never about events). The lock is recursive, because an
 * allocation that fails while a line is written ends in die(), which logs. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* log.errors. A reopened file gets the number of the old descriptor. */
static struct {
    char *path; /* NULL: not set */
    int fd;     /* -1: never opened yet */
    bool opened, failing, torn;
    uint64_t lost; /* when it began to fail */
    int64_t tried_ms;
} errors = {.fd = -1};

void log_open(const char *process, enum log_level min, bool json)
{
    struct stat st;

    snprintf(out.process, sizeof out.process, "%s", process);
    log_set(min, json);
    /* A pipe or socket belongs to this process alone (the supervisor made it). A terminal
     * is shared with the shell, so its flags are not changed. */
    if (fstat(STDERR_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        fcntl(STDERR_FILENO, F_SETFL,
              fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);
}

void log_set(enum log_level min, bool json)
{
    out.min = min;
    out.json = json;
}

bool log_is_on(enum log_level level)
{
    return level >= out.min;
}

/* ---- lines about events ---- */

static bool unlimited(enum log_level level)
{
    return level == LEVEL_ERROR || out.min == LEVEL_DEBUG;
}

bool log_has_capacity(enum log_level level)
{
    int kind = level == LEVEL_WARN;

    if (!log_is_on(level))
        return false;
    if (unlimited(level) || events.left[kind] > 0)
        return true;
    events.suppressed[kind]++;
    return false;
}

uint64_t log_dropped_count(void)
{
    return out.dropped;
}

static void put_escaped(struct buf *b, const char *s)
{
    buf_puts(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s, next = (unsigned char)s[1];

        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(b, "\\u%04x", c);
        else if (c == 0xc2 && next >= 0x80 && next <= 0x9f)
            /* U+0080 to U+009F control some terminals, as ESC and a letter do. */
            buf_printf(b, "\\u%04x", (unsigned char)*++s);
        else
            buf_put(b, s, 1);
    }
    buf_puts(b, "\"");
}

/* Bytes from clients become valid JSON, and cannot begin a line of their own. */
static void put_json_text(struct buf *b, const char *s)
{
    json_t *repaired = NULL;

    if (!utf8_valid((struct bytes){s, strlen(s)}))
        repaired = json_text_of(s);
    put_escaped(b, repaired ? json_string_value(repaired) : s);
    json_decref(repaired);
}

/* Quotes a text value only if a reader could misread it otherwise. */
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

static void put_value(struct buf *b, const struct log_field *f)
{
    char at[RFC3339_BYTES], *start = NULL;
    const char *text = f->text;

    if (f->kind == LOG_NUMBER) {
        buf_printf(b, "%lld", f->number);
        return;
    }
    if (f->kind == LOG_TIME) {
        rfc3339(at, f->number);
        text = at;
    } else if (strlen(text) > VALUE_MAX_BYTES) {
        text = start = gr_strndup(text, VALUE_MAX_BYTES);
    }
    if (out.json)
        put_json_text(b, text);
    else
        put_plain_text(b, text);
    free(start);
}

/* false: there is no space for this field in the line. */
static bool put_field(struct buf *b, struct log_field f)
{
    size_t at = b->len;

    if ((f.kind == LOG_TEXT && !f.text) || (f.kind == LOG_TIME && !f.number))
        return true;
    if (out.json) {
        buf_puts(b, ",");
        put_json_text(b, f.key);
        buf_puts(b, ":");
    } else {
        buf_printf(b, " %s=", f.key);
    }
    put_value(b, &f);
    if (!b->failed && b->len <= LINE_MAX_BYTES - LINE_END_BYTES)
        return true;
    b->failed = false;
    b->len = at;
    return false;
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
        put_field(b, LS("event", event));
    if (out.json)
        put_field(b, LS("what", what));
    else
        buf_puts(b, " ");
    /* The message itself stands without quotes, even if a path in it has spaces. */
    for (; !out.json && *what; what++)
        buf_put(b, (unsigned char)*what < ' ' || *what == 0x7f ? " " : what, 1);
    for (; f->key; f++)
        if (!put_field(b, *f)) {
            buf_puts(b, out.json ? ",\"cut\":1" : " cut=1");
            break;
        }
    buf_puts(b, out.json ? "}\n" : "\n");
}

static void to_errors(const struct buf *b);

/* Writes the whole line. false: errno says why not; errno is 0 if only its start was
 * written. */
static bool write_line(int fd, const struct buf *b, bool *torn)
{
    size_t skip =
        !*torn; /* the line begins with a line end, which completes a partly
                           * written one */
    ssize_t n;

    do
        n = write(fd, b->data + skip, b->len - skip);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        *torn = n < (ssize_t)(b->len - skip);
        errno = 0;
    }
    return n == (ssize_t)(b->len - skip);
}

static void to_stderr(enum log_level level, const char *event, const char *what,
                      const struct log_field *fields, struct buf *b)
{
    buf_init(b, LINE_MAX_BYTES);
    buf_puts(b, "\n");
    put_line(b, level, event, what, fields);
    if (!write_line(STDERR_FILENO, b, &out.torn))
        out.dropped++;
}

void log_write(enum log_level level, const char *event, const char *what,
               const struct log_field *fields)
{
    struct buf b;

    if (!log_is_on(level) || (event && !log_has_capacity(level)))
        return;
    if (event && !unlimited(level))
        events.left[level == LEVEL_WARN]--;
    pthread_mutex_lock(&lock);
    to_stderr(level, event, what, fields, &b);
    if (level >= LEVEL_WARN && errors.path)
        to_errors(&b);
    pthread_mutex_unlock(&lock);
    buf_fini(&b);
}

/* ---- log.errors ---- */

/* Writes to standard error only, because the file is what fails. */
static void log_about_file(enum log_level level, const char *what,
                           const char *why)
{
    struct buf b;

    if (!log_is_on(level))
        return;
    to_stderr(level, NULL, what,
              LOG_FIELDS(LS("file", errors.path), LS("error", why),
                         LI("lost_lines", errors.lost)),
              &b);
    buf_fini(&b);
}

static void failed(const char *why)
{
    if (!errors.failing)
        log_about_file(LEVEL_WARN,
                       "log.errors cannot be written; until it can, its lines "
                       "are on standard error only",
                       why);
    errors.failing = true;
}

static void works(void)
{
    if (errors.failing)
        log_about_file(LEVEL_WARN, "log.errors is written again", NULL);
    errors.failing = false;
    errors.lost = 0;
}

static void to_errors(const struct buf *b)
{
    if (errors.opened && write_line(errors.fd, b, &errors.torn)) {
        works();
        return;
    }
    errors.lost++;
    failed(errno ? strerror(errno) : "only a part of a line could be written");
}

/* Nonblocking, so that opening a FIFO without a reader does not stop the process. */
static void open_errors(void)
{
    int fd = open(errors.path ? errors.path : "/dev/null",
                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
                      O_NONBLOCK,
                  0640);

    errors.tried_ms = out.mono_ms;
    if (fd < 0) {
        failed(strerror(errno));
        errors.opened = false;
        return;
    }
    if (errors.fd < 0) {
        errors.fd = fd;
    } else {
        dup3(fd, errors.fd, O_CLOEXEC);
        close(fd);
    }
    if (!errors.opened)
        works();
    errors.opened = true;
}

void log_errors_to(const char *path)
{
    pthread_mutex_lock(&lock);
    free(errors.path);
    errors.path = path ? gr_strdup(path) : NULL;
    if (path || errors.fd >= 0)
        open_errors();
    pthread_mutex_unlock(&lock);
}

void log_turn(int64_t mono_ms)
{
    uint64_t info, warn;

    out.mono_ms = mono_ms;
    if (errors.failing && mono_ms - errors.tried_ms >= OPEN_AGAIN_MS) {
        pthread_mutex_lock(&lock);
        if (errors.path)
            open_errors();
        pthread_mutex_unlock(&lock);
    }
    if (mono_ms - events.since_ms < SECOND_MS)
        return;
    events.since_ms = mono_ms;
    events.left[0] = events.left[1] = LOG_EVENT_LINES;
    info = events.suppressed[0];
    warn = events.suppressed[1];
    events.suppressed[0] = events.suppressed[1] = 0;
    if (info || warn)
        log_write(warn ? LEVEL_WARN : LEVEL_INFO, NULL,
                  "suppressed lines about events: more than 100 in a second",
                  LOG_FIELDS(LI("info_lines", info), LI("warn_lines", warn)));
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
