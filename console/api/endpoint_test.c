/* endpoint_test: POST /endpoints/{name}/test: a deliverer sends one test event. */
#include "api_request.h"
#include "commands.h"
#include "encoding.h"
#include "endpoint_config.h"
#include <openssl/crypto.h>

/* The endpoint's configuration with its secrets. */
static json_t *question(const struct endpoint_settings *e)
{
    struct buf raw;
    json_t *args;

    buf_init(&raw, ENDPOINT_CONFIG_MAX_BYTES);
    endpoint_config_encode(e, 0, &raw);
    args = json_pack("{s:o}", "config",
                     encoding_base64_json((struct bytes){raw.data, raw.len}));
    OPENSSL_cleanse(raw.data, raw.len);
    buf_fini(&raw);
    return args;
}

/* The first deliverer that responds sends it. */
void endpoint_test(struct api_request *r)
{
    const char *name = json_string_value(json_object_get(r->args, "name"));
    const struct endpoint_settings *e = settings_endpoint(
        r->api->daemon->settings, name);
    struct processes p;
    size_t i = (size_t)r->stage++;

    if (!e) {
        api_fail(r, WEB_NOT_FOUND, NULL, "there is no endpoint %s", name);
        return;
    }
    api_processes(r, "deliverer", &p);
    if (i > 0 && (i >= p.count || (r->asked[0]->end != QUESTION_UNAVAILABLE &&
                                   r->asked[0]->end != QUESTION_UNHEARD))) {
        if (api_answered(r, 0))
            api_respond(r, json_incref(api_reply(r, 0)));
    } else {
        api_forget(r);
        api_ask(r, p.names[i], &command_test, question(e));
    }
    processes_fini(&p);
}
