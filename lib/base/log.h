/* log: one fact per line, the event's id first, so that one grep over the logs of all
 * processes shows everything that happened to an event.
 *
 *   log_info(id, "delivered", LS("endpoint", name), LI("attempt", n));
 *   text:  2026-11-21T10:00:00.000Z info deliverer-1 event=evt_… delivered endpoint=crm attempt=1
 *   json:  {"time":"…","level":"info","process":"deliverer-1","event":"evt_…","what":"delivered","endpoint":"crm","attempt":1}
 *
 * A level says what follows: after debug and info, nothing; after warn, the process goes on
 * although a peer or its data is bad; an error needs a person: a process that cannot keep a
 * promise ends after it (die()); an endpoint that is held or a damaged row does not end the
 * process. A log pipe without a reader never blocks the process: lines are dropped and
 * counted.
 *
 * Lines that name an event come as fast as events do. So each process writes at most
 * LOG_EVENT_LINES of them a second at debug and info, as many warnings, and then one line
 * with the number of the others. Errors are never suppressed, and at level debug nothing
 * is.
 *
 * Keys mean the same in all processes; docs/OPERATIONS.md lists them. A duration ends in
 * _ms, a size in _bytes, a time in _at (LT). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "rc.h"

enum log_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };

enum { LOG_EVENT_LINES = 100 };

struct log_field {
    const char *key;
    enum { LOG_TEXT, LOG_NUMBER, LOG_TIME } kind;
    const char *text;
    long long number;
};

/* A text that is NULL and a time that is 0 are left out; with LO an empty text is left out,
 * too. LO evaluates `v` twice. */
#define LS(k, v) ((struct log_field){.key = (k), .kind = LOG_TEXT, .text = (v)})
#define LO(k, v) LS(k, (v) && *(v) ? (v) : NULL)
#define LI(k, v)         \
    ((struct log_field){ \
        .key = (k), .kind = LOG_NUMBER, .number = (long long)(v)})
/* A number; 0 is left out. */
#define LN(k, v)                                             \
    ((struct log_field){.key = (k),                          \
                        .kind = (v) ? LOG_NUMBER : LOG_TEXT, \
                        .number = (long long)(v)})
#define LT(k, wall_ms)   \
    ((struct log_field){ \
        .key = (k), .kind = LOG_TIME, .number = (long long)(wall_ms)})

/* `process` is copied. Lines go to standard error. */
void log_open(const char *process, enum log_level min, bool json);
/* Changes level and format of an open log; the process's name stays. */
void log_set(enum log_level min, bool json);
/* Writes warnings and errors to this file as well (appends; the umask makes it 0600). NULL:
 * no longer. The same path again reopens the file, for logrotate. A file that cannot be
 * opened or written is reported once on standard error, and the process tries again every
 * ten seconds. Lines that did not reach the file are on standard error. */
void log_errors_to(const char *path);
/* Call about once a turn: begins a new second for lines about events. */
void log_turn(int64_t mono_ms);

bool log_is_on(enum log_level level);
/* Whether a line about an event would be written now. If not, it is counted as suppressed.
 * Ask before work that only the line needs. */
bool log_has_capacity(enum log_level level);
/* The number of lines that were dropped because nothing read standard error in time. */
uint64_t log_dropped_count(void);

/* `event` may be NULL. `fields` ends with a field whose key is NULL. */
void log_write(enum log_level level, const char *event, const char *what,
               const struct log_field *fields);

#define LOG_FIELDS(...)            \
    (const struct log_field[])     \
    {                              \
        __VA_ARGS__ __VA_OPT__(, ) \
        {                          \
            0                      \
        }                          \
    }
#define log_debug(event, what, ...)                                       \
    do {                                                                  \
        if (log_is_on(LEVEL_DEBUG))                                       \
            log_write(LEVEL_DEBUG, event, what, LOG_FIELDS(__VA_ARGS__)); \
    } while (0)
#define log_info(event, what, ...) \
    log_write(LEVEL_INFO, event, what, LOG_FIELDS(__VA_ARGS__))
#define log_warn(event, what, ...) \
    log_write(LEVEL_WARN, event, what, LOG_FIELDS(__VA_ARGS__))
#define log_error(event, what, ...) \
    log_write(LEVEL_ERROR, event, what, LOG_FIELDS(__VA_ARGS__))

#endif
