/* choice: stores and applies the retry policies that routes and events choose. */
#include "choice.h"
#include "bounds.h"
#include "endpoint_config.h"
#include "json_text.h"
#include "log.h"
#include "publication.h"
#include "retry_choice.h"
#include "route.h"
#include "sequencer.h"
#include "string_list.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the stored text: `policy=strict max_attempts=3 expires_ms=1795255200123 priority=high` ---- */

enum { CHOICE_MAX_BYTES = NAME_MAX_BYTES + 100 };

static void put_name(struct buf *out, const char *key)
{
    buf_printf(out, "%s%s=", out->len ? " " : "", key);
}

char *choice_text(const struct publication *u, const struct chosen_by *by,
                  int64_t received_ms, bool resent)
{
    struct retry_choice c = {0};
    const char *policy;
    char *text = NULL;
    struct buf out;

    if (by)
        c = route_choice(by);
    if (resent || (u && u->is && u->p.expires_in_ms))
        c.expires_in_ms = 0; /* the event's own end is in its headers */
    policy = c.policy;
    if (u && u->is && u->p.retry_policy)
        policy = u->p.retry_policy;
    if (u && u->is && u->p.max_attempts)
        c.max_attempts = u->p.max_attempts;
    if (u && u->is && u->p.priority)
        c.priority = u->p.priority;
    if (c.priority == PRIORITY_NORMAL)
        c.priority = PRIORITY_UNCHOSEN; /* the same, and costs a byte */
    if (!policy && !c.max_attempts && !c.expires_in_ms && !c.priority)
        return NULL;
    buf_init(&out, CHOICE_MAX_BYTES);
    if (policy) {
        put_name(&out, "policy");
        buf_puts(&out, policy);
    }
    if (c.max_attempts) {
        put_name(&out, "max_attempts");
        buf_printf(&out, "%" PRId64, c.max_attempts);
    }
    if (c.expires_in_ms) {
        put_name(&out, "expires_ms");
        buf_printf(&out, "%" PRId64, received_ms + c.expires_in_ms);
    }
    if (c.priority) {
        put_name(&out, "priority");
        buf_puts(&out, priority_name(c.priority));
    }
    if (!out.failed)
        text = gr_strndup(out.data, out.len);
    buf_fini(&out);
    return text;
}

/* The value of `key`, which ends with a space or the text; NULL: it is not there. */
static const char *value_of(const char *text, const char *key)
{
    size_t n = strlen(key);

    while (text && *text) {
        if (strncmp(text, key, n) == 0 && text[n] == '=')
            return text + n + 1;
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return NULL;
}

static int64_t number_of(const char *text, const char *key)
{
    const char *value = value_of(text, key);

    return value ? strtoll(value, NULL, 10) : 0;
}

int64_t choice_expires_ms(const char *text)
{
    return number_of(text, "expires_ms");
}

enum priority choice_priority(const char *text)
{
    const char *value = value_of(text, "priority");
    char *name = value ? gr_strndup(value, strcspn(value, " ")) : NULL;
    enum priority priority = name ? priority_named(name) : PRIORITY_UNCHOSEN;

    free(name);
    return priority ? priority : PRIORITY_NORMAL;
}

/* ---- applied ---- */

bool choice_apply(struct sequencer *q, const struct endpoint *e,
                  const char *text, struct retry_policy *out)
{
    const char *policy = value_of(text, "policy");
    struct retry_choice c = {.max_attempts = number_of(text, "max_attempts")};
    bool unknown = false, taken;

    if (!text || !e->settings)
        return false;
    if (policy)
        c.policy = gr_strndup(policy, strcspn(policy, " "));
    taken = retry_choice_apply(q->d.settings, e->settings, &c, out, &unknown) ==
            CHOICE_TAKEN;
    if (unknown && !string_list_has(&q->unknown_policies, c.policy)) {
        string_list_add(&q->unknown_policies, c.policy);
        log_warn(NULL,
                 "deliveries chose a retry policy that is no longer in the "
                 "configuration; the policies of their endpoints apply",
                 LS("retry_policy", c.policy));
    }
    free(c.policy);
    return taken;
}

void choice_encode(struct sequencer *q, const struct endpoint *e,
                   const char *text, struct buf *out)
{
    struct retry_policy policy;

    if (choice_apply(q, e, text, &policy))
        retry_policy_encode(&policy, out);
}

json_t *choice_json(struct sequencer *q, const struct endpoint *e,
                    const char *text)
{
    struct retry_policy policy;

    if (!e || !choice_apply(q, e, text, &policy))
        return json_null();
    return json_pack("{s:o,s:o,s:o}", "policy", json_text_of(policy.name),
                     "max_attempts", json_number_or_null(policy.max_attempts),
                     "max_duration_ms",
                     json_number_or_null(policy.max_duration_ms));
}
