/* retry_choice: the policy of one delivery, by the choice and by the endpoint's retry_choice. */
#include "retry_choice.h"

bool retry_choice_is_empty(const struct retry_choice *c)
{
    return !c->policy && !c->max_attempts && !c->expires_in_ms && !c->priority;
}

/* Of two limits; 0: no limit. */
static int64_t stricter(int64_t a, int64_t b)
{
    return !a ? b : !b || a < b ? a : b;
}

/* A schedule that is not repeated ends with its last wait. */
static int64_t attempts_of(const struct retry_policy *p)
{
    bool ends = p->backoff == BACKOFF_SCHEDULE && !p->repeat_last;

    return ends ? stricter(p->max_attempts, (int64_t)p->schedule.count + 1)
                : p->max_attempts;
}

static void shorten(struct retry_policy *p, const struct endpoint_settings *e)
{
    const struct retry_policy *own = e->policy;
    int64_t timeout_ms = settings_timeout_ms(e, own);

    p->max_attempts = stricter(p->max_attempts, attempts_of(own));
    p->max_duration_ms = stricter(p->max_duration_ms, own->max_duration_ms);
    if (settings_timeout_ms(e, p) > timeout_ms)
        p->attempt_ms = timeout_ms;
}

enum retry_choice_verdict retry_choice_apply(const struct settings *s,
                                             const struct endpoint_settings *e,
                                             const struct retry_choice *c,
                                             struct retry_policy *out,
                                             bool *unknown)
{
    const struct retry_policy *own = e->policy;
    const struct retry_policy *named = c->policy ? settings_policy(s, c->policy)
                                                 : own;

    *out = *own;
    if (unknown)
        *unknown = !named;
    if (e->retry_choice == RETRY_CHOICE_NONE || e->internal)
        return CHOICE_OWN;
    if (named)
        *out = *named;
    if (c->max_attempts)
        out->max_attempts = c->max_attempts;
    if (e->retry_choice == RETRY_CHOICE_FEWER)
        shorten(out, e);
    return (!named || named == own) && out->max_attempts == own->max_attempts
               ? CHOICE_OWN
               : CHOICE_TAKEN;
}
