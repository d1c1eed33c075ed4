/* learned_show: what is usual for a source or an endpoint, and when an alert would fire, for the API and its
 * pages. Changes nothing. */
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "status_mix.h"
#include "usual.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MONDAY = 4 * 24 /* hours after the begin of a week, which is Thursday */
};

#define SOURCE_LEARNED_MS ((double)USUAL_DAYS * DAY_MS)
#define MIX_LEARNED_MS    ((double)MIX_DAYS * DAY_MS)

/* With three digits; below 0: unknown. */
static json_t *rounded(double n)
{
    return n < 0 || !isfinite(n) ? json_null()
                                 : json_real(round(n * 1000) / 1000);
}

/* When so much will have been watched, at the earliest; null: it has been. */
static json_t *judged_from(const struct console *c, double learned_ms,
                           double needed_ms)
{
    return learned_ms >= needed_ms
               ? json_null()
               : json_time(c->daemon.loop.now_ms +
                           (int64_t)(needed_ms - learned_ms));
}

/* ---- sources ---- */

struct verdict {
    const struct alert_rule *rule; /* that fires first; NULL: none watches it */
    int64_t until_ms;              /* until it fires; -1: it does not */
    bool unusual;                  /* its condition is met now */
};

static bool watches(const struct alert_rule *rule, const char *source)
{
    return rule->when == ALERT_UNUSUAL_SILENCE && rule->enabled &&
           !isnan(rule->above) && measurement_selects(&rule->sources, source);
}

/* `judged`: it was watched for long enough. */
static struct verdict verdict_of(const struct console *c, const char *name,
                                 const struct usual *u, bool judged)
{
    const struct settings *s = c->daemon.settings;
    struct verdict v = {.until_ms = -1};

    for (size_t i = 0; i < s->alert_count; i++) {
        const struct alert_rule *rule = &s->alerts[i];
        int64_t until = -1;

        if (!watches(rule, name))
            continue;
        if (judged)
            until = usual_until(u, c->daemon.loop.now_ms, false, rule->above);
        v.unusual |= until == 0;
        if (until >= 0)
            until += rule->for_ms;
        if (!v.rule || (until >= 0 && (v.until_ms < 0 || until < v.until_ms))) {
            v.rule = rule;
            v.until_ms = until;
        }
    }
    return v;
}

static int by_reason(const void *a, const void *b)
{
    return strcmp(
        json_string_value(json_object_get(*(json_t *const *)a, "reason")),
        json_string_value(json_object_get(*(json_t *const *)b, "reason")));
}

static void add_refusal(void *list, const char *reason, int64_t seen_ms,
                        bool is_new)
{
    json_array_append_new(list, json_pack("{s:s,s:o,s:b}", "reason", reason,
                                          "seen_at", json_time(seen_ms), "new",
                                          (int)is_new));
}

static json_t *refusals_of(struct console *c, const char *name)
{
    json_t *found = json_array(), *sorted = json_array(), **rows;
    size_t n;

    learned_each_refusal(c->learned, name, add_refusal, found);
    n = json_array_size(found);
    rows = gr_alloc((n + 1) * sizeof(*rows));
    for (size_t i = 0; i < n; i++)
        rows[i] = json_array_get(found, i);
    qsort(rows, n, sizeof(*rows), by_reason);
    for (size_t i = 0; i < n; i++)
        json_array_append(sorted, rows[i]);
    free(rows);
    json_decref(found);
    return sorted;
}

static json_t *hours_of(const struct usual *u)
{
    json_t *hours = json_array();

    for (int i = 0; u && i < USUAL_HOURS; i++)
        json_array_append_new(hours, rounded(usual_rate(u, MONDAY + i)));
    return hours;
}

json_t *learned_show_missing(struct console *c, const char *name)
{
    struct learned_about a = learned_about_source(c->learned, name);

    return a.usual && a.event_ms && a.usual->now.learned_ms >= SOURCE_LEARNED_MS
               ? rounded(usual_missing(a.usual))
               : json_null();
}

json_t *learned_show_source(struct console *c, const char *name)
{
    struct learned_about a = learned_about_source(c->learned, name);
    const struct usual *u = a.usual;
    int64_t now = c->daemon.loop.now_ms, silence = -1;
    bool judged, used = u && a.event_ms;
    const char *state = "unused";
    struct verdict v = {.until_ms = -1};

    judged = used && u->now.learned_ms >= SOURCE_LEARNED_MS;
    if (used)
        v = verdict_of(c, name, u, judged);
    if (judged)
        silence = usual_until(u, now, true,
                              v.rule ? v.rule->above : USUAL_EVENTS);
    if (used)
        state = !judged       ? "learning"
                : v.unusual   ? "unusual"
                : silence < 0 ? "rare"
                              : "usual";
    return json_pack(
        "{s:s,s:b,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "state", state,
        "watching", (int)a.heard, "watched_ms",
        used ? (json_int_t)u->now.learned_ms : 0, "judged_from",
        used ? judged_from(c, u->now.learned_ms, SOURCE_LEARNED_MS)
             : json_null(),
        "rate",
        judged ? rounded(usual_rate(u, (int)(now / HOUR_MS % USUAL_HOURS)))
               : json_null(),
        "quiet_rate", judged ? rounded(usual_quiet_rate(u, now)) : json_null(),
        "silence_ms", silence < 0 ? json_null() : json_integer(silence),
        "alert", v.rule ? json_string(v.rule->name) : json_null(), "alert_at",
        judged && a.heard && v.until_ms > 0 && !v.unusual
            ? json_time(now + v.until_ms)
            : json_null(),
        "hours", hours_of(used ? u : NULL), "refusals", refusals_of(c, name));
}

/* ---- endpoints ---- */

static json_t *shares_of(const struct mix *m, double count,
                         double (*share)(const struct mix *m,
                                         enum mix_class class))
{
    json_t *shares = json_object();

    if (count <= 0) {
        json_decref(shares);
        return json_null();
    }
    for (int i = 0; i < MIX_COUNT; i++)
        json_object_set_new(shares, mix_words[i], rounded(share(m, i)));
    return shares;
}

/* The rule that reports the smallest rise; NULL: none watches it. */
static const struct alert_rule *mix_rule(const struct console *c,
                                         const char *endpoint)
{
    const struct settings *s = c->daemon.settings;
    const struct alert_rule *found = NULL;

    for (size_t i = 0; i < s->alert_count; i++) {
        const struct alert_rule *rule = &s->alerts[i];

        if (rule->when == ALERT_STATUS_MIX && rule->enabled &&
            !isnan(rule->above) &&
            measurement_selects(&rule->endpoints, endpoint) &&
            (!found || rule->above < found->above))
            found = rule;
    }
    return found;
}

json_t *learned_ask_endpoint(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const char *name = json_string_value(json_object_get(args, "name"));
    const struct mix *m = learned_mix(c->learned, name);
    const struct alert_rule *rule = mix_rule(c, name);
    static const struct mix nothing;
    struct mix_change change = {0};
    const char *state = "unused";

    (void)why;
    if (m && rule)
        change = mix_judge(m, (double)rule->at_least);
    if (m)
        state = !mix_has_learned(m)                               ? "learning"
                : rule && change.known && change.by > rule->above ? "unusual"
                                                                  : "usual";
    else
        m = &nothing;
    return json_pack(
        "{s:s,s:s,s:I,s:o,s:I,s:o,s:I,s:o,s:o}", "name", name, "state", state,
        "watched_ms", (json_int_t)m->learned_ms, "judged_from",
        m == &nothing ? json_null()
                      : judged_from(c, m->learned_ms, MIX_LEARNED_MS),
        "responses", (json_int_t)mix_past_count(m), "shares",
        shares_of(m, mix_past_count(m), mix_past_share), "recent_responses",
        (json_int_t)mix_recent_count(m), "recent",
        shares_of(m, mix_recent_count(m), mix_recent_share), "alert",
        rule ? json_string(rule->name) : json_null());
}
