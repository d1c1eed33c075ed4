/* What the receiver has seen: a JSON line for each request, to a file and to a
 * bounded memory, and counts by path.
 *
 *   {"n":1,"at_ms":1700000000000.123,"connection":4,"method":"POST",
 *    "path":"/crm","headers":[["Host","..."],...],"body":"<base64>",
 *    "status":200}
 * `status` is what it was answered; null with `action` when it was not. With
 * `ends` the line has the address of the client, `"from":"10.0.0.4"`, too, and
 * a second line says when the response was sent or the connection ended:
 *   {"ended":1,"at_ms":1700000000000.456} */
#ifndef RIG_RECORD_H
#define RIG_RECORD_H

#include "rules.h"
#include "text.h"

struct request {
    int64_t at_us;
    int64_t connection;
    const char *method, *path, *headers, *body; /* borrowed */
    const char *from;                           /* borrowed */
    size_t method_len, path_len, headers_len, body_len;
};

struct path_stats;
struct record;

/* `file` may be NULL. `keep` is the count of requests to hold in memory. */
struct record *record_open(const char *file, size_t keep, int ends);
void record_close(struct record *r);
/* The request's number. */
int64_t record_put(struct record *r, const struct request *q,
                   const struct response *a);
void record_put_end(struct record *r, int64_t n, int64_t at_us);
/* Write out what is older than 50 ms; returns how long it may be left alone,
 * -1 for as long as you like. */
int64_t record_flush(struct record *r, int64_t now_us);

/* {"first":F,"last":L,"requests":[…]}: those after `since`, at most `limit`. */
void record_list(struct record *r, int64_t since, int64_t limit,
                 struct text *out);

struct path_stats *record_path(struct record *r, const char *path, size_t len);
/* A request is open from its last byte in to its response out. */
void record_begin(struct path_stats *p, const struct response *a);
void record_end(struct path_stats *p);
/* {"requests":N,"paths":{"/crm":{"requests":N,"statuses":{"200":N},
 *  "in_flight":N,"max_in_flight":N}}}, without the last brace. */
void record_stats(struct record *r, struct text *out);
/* Forget counts and memory; the file and the numbers go on. */
void record_reset(struct record *r);

#endif
