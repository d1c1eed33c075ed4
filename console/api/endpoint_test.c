/* endpoint_test: POST /endpoints/{name}/test: a deliverer sends one test event. */
#include "api_request.h"
#include "commands.h"
#include "encoding.h"
#include "endpoint_config.h"
#include "endpoint_document.h"
#include <openssl/crypto.h>
#include <stdlib.h>

enum { TENANT_TIMEOUT_MS = 5000, TENANT_BODY_BYTES = 1024 };

struct testing {
    struct buf config; /* the endpoint's, encoded with its secrets */
    size_t next;       /* the deliverer that is asked next */
};

static void testing_free(void *state)
{
    struct testing *t = state;

    OPENSSL_cleanse(t->config.data, t->config.len);
    buf_fini(&t->config);
    free(t);
}

static void begin(struct api_request *r, const struct endpoint_settings *e)
{
    struct testing *t = gr_alloc(sizeof *t);

    buf_init(&t->config, ENDPOINT_CONFIG_MAX_BYTES);
    if (api_is_tenant(r)) { /* tests of others wait for it */
        struct endpoint_settings shorter = *e;
        struct retry_policy policy = *e->policy;

        if (settings_timeout_ms(e, e->policy) > TENANT_TIMEOUT_MS)
            policy.attempt_ms = shorter.timeout_ms = TENANT_TIMEOUT_MS;
        shorter.policy = &policy;
        endpoint_config_encode(&shorter, 0, &t->config);
    } else {
        endpoint_config_encode(e, 0, &t->config);
    }
    r->state = t;
    r->state_free = testing_free;
}

/* Of an endpoint that was made at run time: the sequencer has its settings. Without a state
 * afterwards it was asked, or the response is complete. */
static void begin_managed(struct api_request *r, const char *name)
{
    char field[128], why[300];
    struct endpoint_settings *e;
    json_t *settings;

    if (r->stage++ == 0) {
        api_ask(r, "sequencer", &command_endpoint_secrets,
                json_pack("{s:s}", "name", name));
        return;
    }
    if (!api_answered(r, 0))
        return;
    settings = json_object_get(api_reply(r, 0), "settings");
    e = endpoint_document_read(r->api->daemon->settings, name, settings, false,
                               field, why);
    endpoint_document_wipe(settings);
    if (e)
        begin(r, e);
    else
        api_fail(r, WEB_REFUSED, NULL, "%s: %s%s%s", name, field,
                 *field ? ": " : "", why);
    endpoint_document_free(e);
}

/* The beginning of a text, without a broken character. */
static json_t *beginning(const json_t *text)
{
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);

    if (!s)
        return json_null();
    if (n > TENANT_BODY_BYTES)
        for (n = TENANT_BODY_BYTES; n > 0 && (s[n] & 0xc0) == 0x80;)
            n--;
    return json_stringn(s, n);
}

/* An endpoint that answers from inside of the operator's network is not to be read through tests:
 * the status, and the beginning of the body. */
static json_t *reply_to_tenant(const json_t *reply)
{
    json_t *out = json_deep_copy(reply),
           *response = json_object_get(out, "response"),
           *request = json_object_get(out, "request");
    const char *url = json_string_value(json_object_get(request, "url")),
               *query = url ? strchr(url, '?') : NULL;

    if (json_is_object(response)) {
        json_object_set_new(response, "headers", json_string(""));
        json_object_set_new(response, "body",
                            beginning(json_object_get(response, "body")));
    }
    if (query)
        json_object_set_new(request, "url",
                            json_sprintf("%.*s", (int)(query - url), url));
    return out;
}

/* The first deliverer that responds sends it. */
static void send_test(struct api_request *r, struct testing *t)
{
    size_t i = t->next++;
    struct processes p;

    api_processes(r, "deliverer", &p);
    if (i > 0 && (i >= p.count || (r->asked[0]->end != QUESTION_UNAVAILABLE &&
                                   r->asked[0]->end != QUESTION_UNHEARD))) {
        if (api_answered(r, 0))
            api_respond(r, api_is_tenant(r) ? reply_to_tenant(api_reply(r, 0))
                                            : json_incref(api_reply(r, 0)));
    } else {
        api_forget(r);
        api_ask(r, p.names[i], &command_test,
                json_pack("{s:o}", "config",
                          encoding_base64_json(
                              (struct bytes){t->config.data, t->config.len})));
    }
    processes_fini(&p);
}

void endpoint_test(struct api_request *r)
{
    const char *name = json_string_value(json_object_get(r->args, "name"));
    const struct endpoint_settings *e = settings_endpoint(
        r->api->daemon->settings, name);

    if (!r->state && e)
        begin(r, e);
    else if (!r->state && !endpoint_id_valid(name))
        api_fail(r, WEB_NOT_FOUND, NULL, "there is no endpoint %s", name);
    else if (!r->state)
        begin_managed(r, name);
    if (r->state)
        send_test(r, r->state);
}
