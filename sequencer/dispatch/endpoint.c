/* endpoint: the rows of `endpoints`, and whether attempts are made for an endpoint.
 *
 *   from      to        when
 *   ACTIVE    PAUSED    an operator pauses it, or its settings cannot be used
 *   ACTIVE    DISABLED  it responded 410, or failed for too long
 *   ACTIVE    HELD      its deliverer holds it: it worked before, and refuses every event now
 *   HELD      ACTIVE    it accepts an event again, or an operator resumes it
 *   HELD      PAUSED    as from ACTIVE
 *   HELD      DISABLED  as from ACTIVE
 *   PAUSED    DISABLED  by the response to an attempt that was in flight
 *   PAUSED    ACTIVE    an operator resumes it
 *   DISABLED  ACTIVE    the same
 *
 * A paused or disabled endpoint has no grant: a revocation brings its deliveries back, and
 * they wait here with new ones. That time does not count in a budget: the
 * deliverer is sent a start of the budget that is later by the time paused since. */
#include "endpoint.h"
#include "backoff.h"
#include "clock.h"
#include "endpoint_config.h"
#include "log.h"
#include "managed_endpoints.h"
#include "operational_events.h"
#include "sequencer.h"
#include "states.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* a crash loses at most so much of failing_for_ms */
    SAVE_FAILING_MS = 10 * 1000,
    WHY_BYTES = 80,
    FIRST_CAPACITY = 64,
};

/* In percent of the time after which the endpoint is disabled. */
static const int warn_at[] = {50, 70, 90};

/* ---- the table of transitions ---- */

static const struct state endpoint_table[] = {
    [ENDPOINT_ACTIVE] = {"active", STATE_TO(ENDPOINT_PAUSED) |
                                       STATE_TO(ENDPOINT_DISABLED) |
                                       STATE_TO(ENDPOINT_HELD)},
    [ENDPOINT_PAUSED] = {"paused", STATE_TO(ENDPOINT_ACTIVE) |
                                       STATE_TO(ENDPOINT_DISABLED)},
    [ENDPOINT_DISABLED] = {"disabled", STATE_TO(ENDPOINT_ACTIVE)},
    [ENDPOINT_HELD] = {"held", STATE_TO(ENDPOINT_ACTIVE) |
                                   STATE_TO(ENDPOINT_PAUSED) |
                                   STATE_TO(ENDPOINT_DISABLED)},
};
static const struct states endpoint_states = {"endpoint", endpoint_table,
                                              COUNT_OF(endpoint_table)};

const char *endpoint_state_name(const struct endpoint *e)
{
    return !endpoint_is_configured(e) ? "removed"
           : e->settings && !e->settings->enabled
               ? "off"
               : states_name(&endpoint_states, (int)e->state);
}

bool endpoint_is_stopped(const struct endpoint *e)
{
    return e->state == ENDPOINT_PAUSED || e->state == ENDPOINT_DISABLED;
}

bool endpoint_is_configured(const struct endpoint *e)
{
    return e->settings || e->managed;
}

bool endpoint_is_on(const struct endpoint *e)
{
    return (e->settings ? e->settings->enabled : e->managed) &&
           !endpoint_is_stopped(e);
}

static void set_why(struct endpoint *e, const char *why)
{
    free(e->why);
    e->why = *why ? gr_strdup(why) : NULL;
}

/* The only writer of e->state. `since_ms` and `why` belong to the new state. */
static void move(struct sequencer *q, struct endpoint *e,
                 enum endpoint_state to, int64_t since_ms, const char *why)
{
    int64_t now = q->d.loop.now_ms;
    int state = (int)e->state;

    if (e->state != ENDPOINT_ACTIVE && now > e->since_ms)
        e->paused_ms += now - e->since_ms;
    states_transition(&endpoint_states, &state, (int)to, NULL, e->name, NULL);
    e->state = to;
    e->since_ms = since_ms;
    set_why(e, why);
    if (to == ENDPOINT_ACTIVE)
        endpoint_list_drop(q, e, ENDPOINTS_STOPPED);
    else
        endpoint_list_put(q, e, ENDPOINTS_STOPPED);
    if (to != ENDPOINT_HELD)
        e->held_status = 0;
    if (to == ENDPOINT_ACTIVE)
        endpoint_resumed(q, e);
    if (endpoint_is_stopped(e))
        e->revoke = e->grant != 0;
    endpoint_changed(q, e);
}

void endpoint_changed(struct sequencer *q, struct endpoint *e)
{
    e->changed = true;
    endpoint_wake(q, e);
}

void endpoint_resumed(struct sequencer *q, struct endpoint *e)
{
    e->resumed_ms = q->d.loop.now_ms;
    endpoint_changed(q, e);
}

int64_t endpoint_held_ms(const struct endpoint *e)
{
    return e->state == ENDPOINT_HELD ? e->since_ms : 0;
}

int64_t endpoint_waits_since_ms(const struct endpoint *e)
{
    return e->state == ENDPOINT_HELD && !endpoint_is_on(e) ? 0 : e->since_ms;
}

int64_t endpoint_paused_ms(const struct endpoint *e, int64_t at_ms)
{
    int64_t held_ms = endpoint_held_ms(e);

    return e->paused_ms + (held_ms && at_ms > held_ms ? at_ms - held_ms : 0);
}

int64_t endpoint_budget_ms(const struct endpoint *e, int64_t first_ms,
                           int64_t paused_ms)
{
    int64_t first = first_ms + endpoint_paused_ms(e, now_ms()) - paused_ms;

    return !first_ms ? 0 : first < first_ms ? first_ms : first;
}

/* A trace shows what delayed an event. */
static void note_action(struct sequencer *q, const struct endpoint *e,
                        const char *what, const char *by)
{
    store_action_note(q->search, q->d.loop.now_ms, "endpoint", e->name, "%s%s",
                      what, by);
}

void endpoint_pause(struct sequencer *q, struct endpoint *e, const char *who)
{
    char why[WHY_BYTES];

    if (endpoint_is_stopped(e))
        return;
    snprintf(why, sizeof why, "by %s", who);
    move(q, e, ENDPOINT_PAUSED, q->d.loop.now_ms, why);
    note_action(q, e, "paused by ", who);
    log_info(NULL, "an endpoint is paused", LS("endpoint", e->name));
}

static void forget_failing(struct endpoint *e)
{
    e->failing_ms = e->failing_for_ms = e->failing_saved_ms = 0;
    e->warned = 0;
}

void endpoint_resume(struct sequencer *q, struct endpoint *e, const char *who)
{
    if (!endpoint_waits_since_ms(e))
        return;
    if (e->state == ENDPOINT_HELD) {
        e->revoke = e->grant != 0; /* a new grant tells its owner */
    } else {
        forget_failing(e);
        e->waiting = q->assign = true;
    }
    move(q, e, ENDPOINT_ACTIVE, 0, "");
    note_action(q, e, "resumed by ", who);
    log_info(NULL, "an endpoint is resumed", LS("endpoint", e->name));
}

void endpoint_stop(struct sequencer *q, struct endpoint *e, const char *why)
{
    if (endpoint_is_stopped(e))
        return;
    move(q, e, ENDPOINT_PAUSED, q->d.loop.now_ms, why);
    note_action(q, e, "paused: ", why);
    log_error(NULL,
              "the settings of an endpoint cannot be used; it is paused until "
              "`grapnel endpoints resume`",
              LS("endpoint", e->name), LS("error", why));
}

void endpoint_disable(struct sequencer *q, struct endpoint *e,
                      const char *reason, const char *why)
{
    if (e->state == ENDPOINT_DISABLED)
        return;
    move(q, e, ENDPOINT_DISABLED, q->d.loop.now_ms, why);
    note_action(q, e, "disabled: ", why);
    q->metrics[METRIC_ENDPOINTS_DISABLED]++;
    operational_endpoint_disabled(q, e, reason, why);
    log_error(NULL,
              "an endpoint is disabled; its deliveries wait for `grapnel "
              "endpoints resume`",
              LS("endpoint", e->name), LS("reason", reason), LS("error", why));
}

/* ---- holds ---- */

static void put_held(int64_t status, char *out, size_t n)
{
    if (status)
        snprintf(out, n, "it refuses every event with status %lld",
                 (long long)status);
    else
        snprintf(out, n, "its address or URL cannot be used for any event");
}

void endpoint_end_hold(struct sequencer *q, struct endpoint *e)
{
    if (e->state != ENDPOINT_HELD)
        return;
    move(q, e, ENDPOINT_ACTIVE, 0, "");
    log_info(NULL, "an endpoint is no longer held", LS("endpoint", e->name));
}

void endpoint_note_hold(struct sequencer *q, struct endpoint *e,
                        const struct wire_result *r)
{
    bool held = r->outcome == OUTCOME_RETRYING && wire_is(r->reason, "held");
    bool judged = r->outcome == OUTCOME_DEAD && wire_is(r->reason, "rejected");
    char what[WHY_BYTES];

    if (r->outcome == OUTCOME_DELIVERED && !e->healthy) {
        e->healthy = true;
        endpoint_changed(q, e);
    }
    if (r->outcome == OUTCOME_DELIVERED || judged)
        endpoint_end_hold(q, e);
    if (!held || e->state != ENDPOINT_ACTIVE || !endpoint_is_on(e) ||
        !e->settings->guard)
        return;
    /* These are the last attempts under a revoked grant. An operator may just have ended the
     * hold, so let the next owner decide. */
    if (e->revoke || e->revoking)
        return;
    put_held((int64_t)r->http_status, what, sizeof what);
    move(q, e, ENDPOINT_HELD, r->at_ms, what);
    e->held_status = (int64_t)r->http_status;
    note_action(q, e, "held: ", what);
    operational_endpoint_held(q, e);
    log_error(NULL,
              "an endpoint that worked now refuses every event; its deliveries "
              "are held",
              LS("endpoint", e->name), LN("http_status", e->held_status));
}

/* ---- failing continuously ---- */

void endpoints_alive(struct sequencer *q, const struct deliverer_peer *d,
                     int64_t alive_ms)
{
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        if (!e->failing_ms || e->owner != d || e->revoking ||
            !endpoint_is_on(e))
            continue;
        e->failing_for_ms += alive_ms;
        if (e->failing_for_ms - e->failing_saved_ms >= SAVE_FAILING_MS)
            endpoint_changed(q, e);
    }
}

static void judge_failing(struct sequencer *q, struct endpoint *e)
{
    int64_t limit = e->settings->disable_after_ms,
            budget = backoff_span_ms(e->settings->policy, false);
    int64_t failing = e->failing_for_ms;
    char why[WHY_BYTES], for_text[32];

    if (limit < budget)
        limit = budget;
    while (e->warned < (int)COUNT_OF(warn_at) &&
           failing >= limit / 100 * warn_at[e->warned]) {
        log_warn(NULL, "an endpoint fails continuously",
                 LS("endpoint", e->name), LI("failing_ms", failing),
                 LI("disable_after_ms", limit),
                 LI("percent", warn_at[e->warned]));
        operational_endpoint_failing(q, e, warn_at[e->warned], limit);
        e->warned++;
        endpoint_changed(q, e);
    }
    if (failing < limit || endpoint_is_stopped(e))
        return;
    rfc3339(for_text, e->failing_ms);
    snprintf(why, sizeof why, "it has failed continuously since %s", for_text);
    endpoint_disable(q, e, "failing", why);
}

void endpoint_responded(struct sequencer *q, struct endpoint *e, bool delivered,
                        int64_t at_ms)
{
    if (!e->settings || e->temporary) /* which is never disabled */
        return;
    if (delivered) {
        if (e->failing_ms)
            endpoint_changed(q, e);
        forget_failing(e);
        return;
    }
    if (!e->failing_ms) {
        e->failing_ms = at_ms;
        endpoint_changed(q, e);
    }
    judge_failing(q, e);
}

/* ---- rows ---- */

struct endpoint *endpoint_find(struct sequencer *q, const char *name)
{
    uint64_t key = lookup_text(name);
    size_t i, at = 0;

    while ((i = lookup_next(&q->names, key, &at)) != LOOKUP_END)
        if (strcmp(q->endpoints[i].name, name) == 0)
            return &q->endpoints[i];
    return NULL;
}

struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id)
{
    size_t lo = 0, hi = q->endpoint_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (q->endpoints[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < q->endpoint_count && q->endpoints[lo].id == id
               ? &q->endpoints[lo]
               : NULL;
}

/* Keeps q->endpoints in the order of ids: rows are read in that order, and a new row has the
 * highest id. */
static struct endpoint *endpoint_new(struct sequencer *q, int64_t id,
                                     const char *name)
{
    struct endpoint *e;

    if (id >= ENDPOINTS_MAX)
        die(EXIT_CONFIG,
            "endpoints: too many; the maximum, including removed ones, is %d",
            ENDPOINTS_MAX - 1);
    if (q->endpoint_count == q->endpoint_capacity) {
        q->endpoint_capacity = q->endpoint_capacity ? 2 * q->endpoint_capacity
                                                    : FIRST_CAPACITY;
        q->endpoints = gr_realloc(q->endpoints,
                                  q->endpoint_capacity * sizeof *q->endpoints);
    }
    e = &q->endpoints[q->endpoint_count++];
    *e = (struct endpoint){.id = id, .ordered = -1, .last_lane = INT64_MIN};
    buf_init(&e->encoded_config, ENDPOINT_CONFIG_MAX_BYTES);
    wire_copy(e->name, sizeof e->name, wire_text(name));
    lookup_put(&q->names, lookup_text(e->name), q->endpoint_count - 1);
    return e;
}

struct endpoint *endpoint_find_or_add(struct sequencer *q, const char *name)
{
    struct endpoint *e = endpoint_find(q, name);

    return e ? e
             : endpoint_new(q, store_endpoint_add(q->store, name, false), name);
}

struct endpoint *endpoint_add_temporary(struct sequencer *q, const char *name)
{
    struct endpoint *e = endpoint_new(
        q, store_endpoint_add(q->store, name, true), name);

    e->temporary = true;
    return e;
}

void endpoint_note_gone(struct sequencer *q, struct endpoint *e)
{
    e->gone_after = q->next_event - 1;
    endpoint_changed(q, e);
}

struct endpoint *endpoint_adopt(struct sequencer *q, const char *name)
{
    struct endpoint *e = endpoint_find_or_add(q, name);

    if (!endpoint_is_configured(e))
        endpoint_note_gone(q, e);
    return e;
}

static void forget_actions(void *arg, const char *name)
{
    struct sequencer *q = arg;
    char *subject = gr_printf("endpoint %s", name);

    store_actions_drop(q->search, subject);
    free(subject);
}

/* Another one is of a damaged row. */
static int64_t round_read(int64_t round)
{
    return round > 0 && round < ROUND_MAX ? round : 0;
}

static void on_endpoint_row(void *arg, const struct endpoint_row *r)
{
    struct sequencer *q = arg;
    struct endpoint *e = endpoint_new(q, r->id, r->name);
    char why[WHY_BYTES];

    e->grant = r->grant_id;
    e->config = r->config;
    e->temporary = r->temporary;
    e->ordered = r->ordered;
    e->held_status = r->held_status;
    if (r->held_ms) {
        e->state = ENDPOINT_HELD;
        e->since_ms = r->held_ms;
        put_held(r->held_status, why, sizeof why);
        set_why(e, why);
    } else {
        e->state = (enum endpoint_state)r->state;
        e->since_ms = r->since_ms;
        set_why(e, r->why);
    }
    if (e->state != ENDPOINT_ACTIVE)
        endpoint_list_put(q, e, ENDPOINTS_STOPPED);
    e->failing_ms = r->failing_ms;
    e->failing_for_ms = e->failing_saved_ms = r->failing_for_ms;
    e->healthy = r->healthy;
    e->resumed_ms = r->resumed_ms;
    e->queues[PRIORITY_NORMAL].round = round_read(r->round);
    e->queues[PRIORITY_HIGH].round = round_read(r->round_high);
    e->queues[PRIORITY_LOW].round = round_read(r->round_low);
    e->warned = r->warned;
    e->paused_ms = r->paused_ms;
    e->gone_after = r->gone_after;
    if (!r->grant_id)
        return;
    e->owner = deliverer_find_or_add(q, r->owner);
    lookup_put(&q->grants, r->grant_id, q->endpoint_count - 1);
    endpoint_list_put(q, e, ENDPOINTS_GRANTED);
}

/* It has deliveries that are not final. */
static void on_open(void *arg, int64_t endpoint)
{
    struct sequencer *q = arg;
    struct endpoint *e = endpoint_by_id(q, endpoint);

    if (!e)
        return;
    e->sweeping = e->waiting = true;
    if (e->temporary)
        endpoint_list_put(q, e, ENDPOINTS_TEMPORARY);
    endpoint_wake(q, e);
}

void endpoints_load(struct sequencer *q)
{
    int64_t halted = 0;

    q->halts = 0;
    store_endpoints(q->store, on_endpoint_row, q);
    managed_load(q);
    while ((halted = store_halted_endpoint(q->lanes, halted)) != 0) {
        struct endpoint *e = endpoint_by_id(q, halted);

        if (!e)
            continue;
        e->halts = store_halt_count(q->lanes, halted);
        q->halts += e->halts;
    }
    store_endpoints_open(q->store, on_open, q);
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        e->in_window = store_count_in_flight(q->store, e->id, e->grant);
        e->owner->in_window += e->in_window;
    }
}

void endpoints_unload(struct sequencer *q)
{
    managed_unload(q);
    for (size_t i = 0; i < q->endpoint_count; i++) {
        if (q->endpoints[i].managed)
            managed_sleep(&q->endpoints[i]);
        buf_fini(&q->endpoints[i].encoded_config);
        free(q->endpoints[i].why);
    }
    for (int i = 0; i < ENDPOINT_LISTS; i++) {
        free(q->lists[i].slots);
        q->lists[i] = (struct endpoint_list){0};
    }
    free(q->endpoints);
    lookup_fini(&q->names);
    lookup_fini(&q->grants);
    subscriptions_free(q->subscriptions);
    q->subscriptions = NULL;
    q->endpoints = NULL;
    q->endpoint_count = q->endpoint_capacity = 0;
}

/* On disk a held endpoint is active, and `held_ms` says since when it is held. */
static void save(struct sequencer *q, const struct endpoint *e)
{
    bool held = e->state == ENDPOINT_HELD;

    store_endpoint_state(
        q->store,
        &(struct endpoint_row){.id = e->id,
                               .ordered = e->ordered,
                               .state = held ? ENDPOINT_ACTIVE : (int)e->state,
                               .since_ms = held ? 0 : e->since_ms,
                               .why = held || !e->why ? "" : e->why,
                               .failing_ms = e->failing_ms,
                               .warned = e->warned,
                               .paused_ms = e->paused_ms,
                               .failing_for_ms = e->failing_for_ms,
                               .healthy = e->healthy,
                               .held_ms = endpoint_held_ms(e),
                               .held_status = e->held_status,
                               .resumed_ms = e->resumed_ms,
                               .round = e->queues[PRIORITY_NORMAL].round,
                               .round_high = e->queues[PRIORITY_HIGH].round,
                               .round_low = e->queues[PRIORITY_LOW].round,
                               .gone_after = e->gone_after});
}

/* Also after this turn, it may have something to do. */
static bool is_awake(const struct endpoint *e)
{
    if (e->in_window || e->sweeping || e->revoke || e->granted_pending ||
        (e->settings && e->laning != SETTLED))
        return true;
    if (endpoint_is_on(e))
        return e->waiting || (!e->grant && !e->managed);
    /* The waiting deliveries of a removed one become dead letters. */
    return e->waiting && !endpoint_is_configured(e);
}

void endpoints_save(struct sequencer *q)
{
    q->metrics[METRIC_OUT] = 0;
    for (size_t i = q->lists[ENDPOINTS_AWAKE].count; i-- > 0;) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);

        q->metrics[METRIC_OUT] += e->in_window;
        if (e->changed) {
            e->changed = false;
            e->failing_saved_ms = e->failing_for_ms;
            save(q, e);
        }
        if (is_awake(e))
            continue;
        endpoint_list_drop(q, e, ENDPOINTS_AWAKE);
        if (e->temporary && !e->managed)
            endpoint_list_drop(q, e, ENDPOINTS_TEMPORARY);
        e->idle_since_ms = q->d.loop.mono_ms;
        if (e->managed && !e->grant)
            managed_sleep(e);
    }
    q->metrics[METRIC_LANES_HALTED] = q->halts;
}

/* Ids are not used again, so that a row that still names one does not name another endpoint. */
bool endpoints_forget_gone(struct sequencer *q)
{
    int count = store_endpoints_forget(q->store, q->next_event, forget_actions,
                                       q);

    if (count)
        managed_forget_deleted(q);
    if (count)
        log_info(NULL, "removed endpoints without stored data were deleted",
                 LI("count", count));
    return count > 0;
}
