/* support.h: requests of ../../vectors.json, for the tests. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include "../grapnel_receiver.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEADERS_MAX = 128 };

/* A request; each part is in memory of exactly its size, so that AddressSanitizer sees a read
 * beyond it. */
struct request {
    struct grapnel_header headers[HEADERS_MAX];
    size_t count;
    char *body;
    size_t body_bytes;
};

json_t *vectors(void); /* read once; never freed by the caller */
void vectors_close(void);
json_t *scenario(const char *name);
struct request request_of(json_t *vector);
/* The delivery `n`, from 0, of a scenario. */
struct request delivery(const char *name, size_t n);
void request_free(struct request *r);
/* The header of this name, which is there. */
struct grapnel_header *header(struct request *r, const char *name);
void set_value(struct grapnel_header *h, const void *value, size_t bytes);
void add_header(struct request *r, const char *name, const void *value,
                size_t bytes);

/* A handler without an effect. `arg`: NULL, or the int that it returns. */
int do_nothing(void *arg, const struct grapnel_event *e,
               const struct grapnel_check *check,
               const struct grapnel_transaction *t);

const char *scenario_key(void); /* all scenarios have the same */
int64_t scenario_now_s(void);

#endif
