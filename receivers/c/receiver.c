/* receiver.c: a receiver: its settings, and what joins verification and store. */
#include "internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum grapnel_status grapnel_say(struct grapnel_error *error,
                                enum grapnel_status status, const char *format,
                                ...)
{
    va_list values;

    if (error) {
        va_start(values, format);
        vsnprintf(error->text, sizeof error->text, format, values);
        va_end(values);
    }
    return status;
}

enum grapnel_status grapnel_say_handler(struct grapnel_error *error, int code)
{
    return grapnel_say(error, GRAPNEL_FAILED,
                       "the handler failed: it returned %d", code);
}

enum grapnel_status grapnel_say_memory(struct grapnel_error *error)
{
    return grapnel_say(error, GRAPNEL_FAILED, "the memory is exhausted");
}

bool grapnel_number(const char *text, size_t bytes, int64_t *n)
{
    int64_t value = 0;

    if (!bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int digit = text[i] - '0';

        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *n = value;
    return true;
}

void grapnel_copy(char *out, size_t out_bytes, const char *text)
{
    size_t n = strlen(text);

    if (n >= out_bytes)
        n = out_bytes - 1;
    memcpy(out, text, n);
    out[n] = 0;
}

static int64_t wall_clock_s(void *arg)
{
    (void)arg;
    return (int64_t)time(NULL);
}

int64_t grapnel_now_s(const struct grapnel_receiver *r)
{
    return r->now_s(r->now_arg);
}

struct grapnel_receiver *grapnel_receiver_new(struct grapnel_store *store,
                                              const char *secrets,
                                              struct grapnel_error *error)
{
    struct grapnel_receiver *r = calloc(1, sizeof *r);

    if (!r) {
        grapnel_say_memory(error);
        return NULL;
    }
    r->store = store;
    r->tolerance_s = 300;
    r->order = true;
    r->now_s = wall_clock_s;
    if (grapnel_keys_read(&r->keys, secrets, error)) {
        grapnel_receiver_free(r);
        return NULL;
    }
    return r;
}

void grapnel_receiver_free(struct grapnel_receiver *r)
{
    if (r)
        grapnel_keys_free(&r->keys);
    free(r);
}

void grapnel_receiver_set_tolerance(struct grapnel_receiver *r,
                                    int64_t tolerance_s)
{
    r->tolerance_s = tolerance_s;
}

void grapnel_receiver_set_order(struct grapnel_receiver *r, bool order)
{
    r->order = order;
}

void grapnel_receiver_set_clock(struct grapnel_receiver *r,
                                int64_t (*now_s)(void *arg), void *arg)
{
    r->now_s = now_s ? now_s : wall_clock_s;
    r->now_arg = arg;
}

static enum grapnel_status needs_store(const struct grapnel_receiver *r,
                                       struct grapnel_error *error)
{
    if (r->store)
        return GRAPNEL_DONE;
    return grapnel_say(error, GRAPNEL_INVALID,
                       "this receiver has no store: give one to "
                       "grapnel_receiver_new()");
}

static struct grapnel_arrival arrived(const struct grapnel_receiver *r,
                                      const struct grapnel_event *e)
{
    return (struct grapnel_arrival){e, grapnel_now_s(r),
                                    r->order && e->numbered};
}

enum grapnel_status grapnel_process(const struct grapnel_receiver *r,
                                    const struct grapnel_event *event,
                                    grapnel_handler handle, void *arg,
                                    struct grapnel_check *check,
                                    struct grapnel_error *error)
{
    struct grapnel_arrival a;
    struct grapnel_check own;
    enum grapnel_status status = needs_store(r, error);

    if (!check)
        check = &own;
    memset(check, 0, sizeof *check);
    if (status)
        return status;
    a = arrived(r, event);
    return r->store->methods->process(r->store, &a, handle, arg, check, error);
}

enum grapnel_status grapnel_receive(const struct grapnel_receiver *r,
                                    const struct grapnel_header *headers,
                                    size_t header_count, const void *body,
                                    size_t body_bytes, grapnel_handler handle,
                                    void *arg, struct grapnel_check *check,
                                    struct grapnel_error *error)
{
    struct grapnel_event *event;
    enum grapnel_status status = grapnel_verify(r, headers, header_count, body,
                                                body_bytes, &event, error);

    if (check)
        memset(check, 0, sizeof *check);
    if (!status)
        status = grapnel_process(r, event, handle, arg, check, error);
    grapnel_event_free(event);
    return status;
}

enum grapnel_status grapnel_check(const struct grapnel_receiver *r,
                                  const struct grapnel_event *event,
                                  const struct grapnel_transaction *transaction,
                                  struct grapnel_check *check,
                                  struct grapnel_error *error)
{
    struct grapnel_arrival a;
    struct grapnel_check own;
    enum grapnel_status status = needs_store(r, error);

    if (!check)
        check = &own;
    memset(check, 0, sizeof *check);
    if (status)
        return status;
    if (!r->store->methods->check)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "this store cannot join your transaction: call "
                           "grapnel_process()");
    a = arrived(r, event);
    return r->store->methods->check(r->store, &a, transaction, check, error);
}

enum grapnel_status grapnel_missing(const struct grapnel_receiver *r,
                                    int64_t older_s,
                                    struct grapnel_missing_list *list,
                                    struct grapnel_error *error)
{
    enum grapnel_status status = needs_store(r, error);

    if (status)
        return status;
    return r->store->methods->missing(
        r->store, grapnel_now_s(r) - (older_s > 0 ? older_s : 0), list, error);
}

enum grapnel_status grapnel_forget(const struct grapnel_receiver *r,
                                   struct grapnel_error *error)
{
    enum grapnel_status status = needs_store(r, error);

    if (status)
        return status;
    return r->store->methods->forget(r->store,
                                     grapnel_now_s(r) - GRAPNEL_KEEP_S, error);
}

enum grapnel_status grapnel_store_create_tables(struct grapnel_store *store,
                                                struct grapnel_error *error)
{
    if (!store->methods->create_tables)
        return GRAPNEL_DONE;
    return store->methods->create_tables(store, error);
}

void grapnel_store_free(struct grapnel_store *store)
{
    if (store)
        store->methods->free(store);
}

bool grapnel_missing_add(struct grapnel_missing_list *list, const char *series,
                         const char *workspace, int64_t number, int64_t since_s,
                         bool unsure)
{
    struct grapnel_missing m = {strdup(series), strdup(workspace), number,
                                since_s, unsure};

    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 16;
        struct grapnel_missing *items = capacity > SIZE_MAX / sizeof *items
                                            ? NULL
                                            : realloc(list->items,
                                                      capacity * sizeof *items);

        if (items) {
            list->items = items;
            list->capacity = capacity;
        }
    }
    if (!m.series || !m.workspace || list->count == list->capacity) {
        free(m.series);
        free(m.workspace);
        return false;
    }
    list->items[list->count++] = m;
    return true;
}

static int by_age(const void *a, const void *b)
{
    const struct grapnel_missing *one = a, *other = b;

    if (one->since_s != other->since_s)
        return one->since_s < other->since_s ? -1 : 1;
    return (one->number > other->number) - (one->number < other->number);
}

void grapnel_missing_sort(struct grapnel_missing_list *list)
{
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, by_age);
}

void grapnel_missing_free(struct grapnel_missing_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].series);
        free(list->items[i].workspace);
    }
    free(list->items);
    *list = (struct grapnel_missing_list){0};
}
