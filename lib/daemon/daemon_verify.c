/* daemon_verify: starts a verification in a thread, and reports its result. */
#include "daemon_verify.h"
#include "clock.h"
#include "daemon.h"
#include "log.h"
#include "sums.h"
#include "verifier.h"
#include <stdio.h>

enum { POLL_MS = 100 };

#define FIRST_MS HOUR_MS /* after the start, which has more urgent work */
#define EVERY_MS DAY_MS

void daemon_verify_open(struct daemon *d)
{
    d->verify.due_ms = mono_ms() + FIRST_MS;
}

static void begin(struct daemon *d)
{
    d->verify.running = verifier_open(db_path(d->db), sums_all, sums_count);
    db_verify_with(d->db, d->verify.running);
}

json_t *daemon_verify_ask(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;

    (void)args;
    if (control_waiting(d->control)) {
        control_fail(why, CONTROL_IN_PROGRESS,
                     "a backup or a verification is already in progress");
        return NULL;
    }
    if (!d->verify.running)
        begin(d);
    d->verify.asked = true;
    return control_later(d->control);
}

static void log_all(struct daemon *d, const json_t *result)
{
    json_t *list = json_object_get(result, "damaged"), *row;
    size_t i;

    json_array_foreach(list, i, row)
    {
        const char *table = json_string_value(json_object_get(row, "table"));
        const char *id = json_string_value(json_object_get(row, "id"));

        if (id)
            db_damage_found(id, db_path(d->db), table);
        else
            db_damage_found_in(db_path(d->db), table,
                               json_string_value(json_object_get(row, "what")));
    }
}

static void end(struct daemon *d, json_t *result)
{
    log_info(NULL, "the database was verified",
             LI("rows", json_integer_value(json_object_get(result, "rows"))),
             LI("damaged",
                json_integer_value(json_object_get(result, "damaged_count"))));
    log_all(d, result);
    if (d->verify.asked)
        control_reply(d->control, json_incref(result), NULL);
    d->verify.asked = false;
    d->verify.ended_ms = now_ms();
    d->verify.due_ms = mono_ms() + EVERY_MS;
    db_verify_with(d->db, NULL);
    verifier_close(d->verify.running);
    d->verify.running = NULL;
}

int daemon_verify_step(struct daemon *d)
{
    int64_t wait_ms = d->verify.due_ms - d->loop.mono_ms;
    json_t *result;

    if (!d->verify.running && wait_ms <= 0 && !d->loop.stopping)
        begin(d);
    if (!d->verify.running)
        return wait_ms < MINUTE_MS ? (int)wait_ms : (int)MINUTE_MS;
    result = verifier_take(d->verify.running);
    if (result)
        end(d, result);
    json_decref(result);
    return POLL_MS;
}

void daemon_verify_close(struct daemon *d)
{
    db_verify_with(d->db, NULL);
    verifier_close(d->verify.running);
    d->verify.running = NULL;
}
