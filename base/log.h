/* log: one fact per line, the event's id first, so that one grep over all
 * processes tells an event's whole life.
 *
 *   log_info(id, "delivered", LS("endpoint", name), LI("attempt", n));
 *   text:  2026-11-21T10:00:00.000Z info deliverer-1 event=evt_… delivered endpoint=crm attempt=1
 *   json:  {"time":"…","level":"info","process":"deliverer-1","event":"evt_…","what":"delivered","endpoint":"crm","attempt":1}
 *
 * Levels say what happens next: debug and info, nothing; warn, the peer or the
 * data is bad and we go on; error, we cannot keep a promise and die (die()).
 * A log pipe that nobody reads never blocks us: lines are dropped and counted. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "rc.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_field {
    const char *key;
    const char *text; /* NULL: `number` counts */
    long long number;
};

#define LS(k, v) ((struct log_field){.key = (k), .text = (v)})
#define LI(k, v) ((struct log_field){.key = (k), .number = (long long)(v)})

/* `process` is copied. Standard error is where lines go. */
void log_open(const char *process, enum log_level least, bool json);
bool log_wants(enum log_level level);
/* Lines that could not be written because the reader was away. */
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
#define log_debug(event, what, ...)                                     \
    do {                                                                \
        if (log_wants(LOG_DEBUG))                                       \
            log_write(LOG_DEBUG, event, what, LOG_FIELDS(__VA_ARGS__)); \
    } while (0)
#define log_info(event, what, ...) \
    log_write(LOG_INFO, event, what, LOG_FIELDS(__VA_ARGS__))
#define log_warn(event, what, ...) \
    log_write(LOG_WARN, event, what, LOG_FIELDS(__VA_ARGS__))
#define log_error(event, what, ...) \
    log_write(LOG_ERROR, event, what, LOG_FIELDS(__VA_ARGS__))

#endif
