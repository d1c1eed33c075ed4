/* endpoint_test: POST /endpoints/{name}/test: a deliverer sends one test event. */
#include "api_request.h"
#include "commands.h"
#include "encoding.h"
#include "endpoint_config.h"
#include "endpoint_document.h"
#include <openssl/crypto.h>
#include <stdlib.h>

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
    endpoint_config_encode(e, 0, &t->config);
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

/* The first deliverer that responds sends it. */
static void send_test(struct api_request *r, struct testing *t)
{
    size_t i = t->next++;
    struct processes p;

    api_processes(r, "deliverer", &p);
    if (i > 0 && (i >= p.count || (r->asked[0]->end != QUESTION_UNAVAILABLE &&
                                   r->asked[0]->end != QUESTION_UNHEARD))) {
        if (api_answered(r, 0))
            api_respond(r, json_incref(api_reply(r, 0)));
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
