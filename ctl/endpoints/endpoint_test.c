/* endpoint_test: `grapnel endpoints test`: has a deliverer send a signed test event to an
 * endpoint, and prints the request and the response. */
#include "endpoint_test.h"
#include "ask.h"
#include "conf.h"
#include "endpoint_config.h"
#include "endpoint_document.h"
#include "exchange.h"
#include "json_text.h"
#include "table.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Added to the timeout of the attempt. */
enum { MARGIN_MS = 10 * 1000 };

json_t *endpoint_test_args(const struct endpoint_settings *e, json_t *drill)
{
    struct buf raw;
    json_t *args;
    char *text;

    buf_init(&raw, ENDPOINT_CONFIG_MAX_BYTES);
    endpoint_config_encode(e, 0, &raw);
    text = gr_alloc(raw.len * 4 / 3 + 8);
    EVP_EncodeBlock((unsigned char *)text, (unsigned char *)raw.data,
                    (int)raw.len);
    args = json_pack("{s:s,s:o}", "config", text, "endpoint",
                     json_text_of(e->name));
    if (drill)
        json_object_set_new(args, "drill", drill);
    OPENSSL_cleanse(text, strlen(text));
    OPENSSL_cleanse(raw.data, raw.len);
    free(text);
    buf_fini(&raw);
    return args;
}

void endpoint_test_wipe(json_t *args)
{
    const char *text = json_string_value(json_object_get(args, "config"));

    if (text)
        OPENSSL_cleanse((void *)(uintptr_t)text, strlen(text));
    json_decref(args);
}

int endpoint_test_ms(const struct endpoint_settings *e)
{
    return (int)settings_timeout_ms(e, e->policy) + MARGIN_MS;
}

/* Asks the first deliverer that responds. NULL: the reason was printed, and *code is the exit
 * code. */
static json_t *ask_one(struct ctl *c, const struct endpoint_settings *e,
                       int *code)
{
    struct processes p;
    char why[200] = "";
    bool unreachable = true;
    json_t *args = endpoint_test_args(e, NULL), *reply = NULL;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && unreachable; i++)
        if (process_is(p.names[i], "deliverer"))
            reply = ask(c, p.names[i], "test", json_incref(args),
                        endpoint_test_ms(e), &unreachable, why);
    processes_fini(&p);
    endpoint_test_wipe(args);
    if (!reply)
        *code = unreachable ? complain_away(c, "deliverer", why)
                            : complain(EXIT_REFUSED, "refused: %s", why);
    return reply;
}

static void print_exchange(struct ctl *c, const json_t *a)
{
    static const char *const steps[][2] = {{"dns_ms", "address"},
                                           {"connect_ms", "connected"},
                                           {"tls_ms", "TLS"},
                                           {"first_byte_ms", "first byte"},
                                           {"total_ms", "all"}};
    const json_t *request = json_object_get(a, "request"),
                 *response = json_object_get(a, "response");
    const char *verdict = text_of(a, "verdict"), *error = text_of(a, "error");
    const char *reason = text_of(a, "reason"), *comma = "";
    const char *headers = json_string_value(
        json_object_get(response, "headers"));
    enum colour colour = strcmp(verdict, "delivered") == 0 ? GREEN : RED;

    printf("> %s %s\n", text_of(request, "method"), text_of(request, "url"));
    exchange_headers(json_object_get(request, "headers"), "> ");
    printf(">\n");
    exchange_body(exchange_bytes(json_object_get(request, "body")), "> ",
                  SIZE_MAX);
    printf("\n");
    if (json_is_object(response)) {
        exchange_header_lines(headers ? headers : "", "< ");
        printf("<\n");
        exchange_body(exchange_bytes(json_object_get(response, "body")), "< ",
                      SIZE_MAX);
        printf("\n");
    }
    printf("%s%s%s%s%s%s%s%s, sent by %s\n", colour_on(colour, c->colour),
           verdict, colour_off(colour, c->colour), *reason ? " (" : "", reason,
           *reason ? ")" : "", *error ? ": " : "", error,
           text_of(a, "deliverer"));
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const json_t *ms = json_object_get(json_object_get(a, "timings"),
                                           steps[i][0]);

        if (!json_is_number(ms))
            continue;
        printf("%s%s %.1f ms", comma, steps[i][1], json_number_value(ms));
        comma = ", ";
    }
    printf("\n");
}

/* Reads the endpoint of the file; the result belongs to the settings. NULL: the error was
 * printed. */
static const struct endpoint_settings *of_file(struct ctl *c, const char *name)
{
    static const char *const keys[] = {"endpoint_defaults", "endpoints",
                                       "retry_policies", "include", NULL};
    struct conf_near near = {.text = name};
    const struct endpoint_settings *e;
    char hint[100];

    need_settings(c, keys,
                  "endpoints test needs `endpoints`, `endpoint_defaults` and "
                  "`retry_policies` of the configuration with their secrets: "
                  "run it as a user and in an environment that can read them");
    e = settings_endpoint(c->settings, name);
    if (e)
        return e;
    for (size_t i = 0; i < c->settings->endpoint_count; i++)
        conf_near_try(&near, c->settings->endpoints[i].name);
    complain(EXIT_REFUSED, "there is no endpoint \"%s\"%s", name,
             conf_near_hint(&near, hint));
    return NULL;
}

/* Asks the sequencer for an endpoint that was made at run time. The caller calls
 * endpoint_document_free(). NULL: the error was printed, and *code is the exit code. */
static struct endpoint_settings *of_sequencer(struct ctl *c, const char *name,
                                              int *code)
{
    static const char *const keys[] = {"endpoint_defaults", "retry_policies",
                                       "include", NULL};
    char field[128], why[300];
    struct endpoint_settings *e;
    json_t *reply;

    if (!is_utf8("the name of the endpoint", name)) {
        *code = EXIT_USAGE;
        return NULL;
    }
    need_settings(c, keys,
                  "endpoints test needs `endpoint_defaults` and "
                  "`retry_policies` of the configuration");
    reply = ask_needed(c, "sequencer", "endpoint_secrets",
                       json_pack("{s:s}", "name", name), ASK_MS, code);
    if (!reply)
        return NULL;
    e = endpoint_document_read(c->settings, name,
                               json_object_get(reply, "settings"), false, field,
                               why);
    endpoint_document_wipe(reply);
    json_decref(reply);
    if (!e)
        *code = complain(EXIT_REFUSED, "%s: %s%s%s", name, field,
                         *field ? ": " : "", why);
    return e;
}

const struct endpoint_settings *
tested_endpoint(struct ctl *c, const char *name,
                struct endpoint_settings **managed, int *code)
{
    *managed = NULL;
    *code = EXIT_REFUSED;
    if (endpoint_id_valid(name))
        return *managed = of_sequencer(c, name, code);
    return of_file(c, name);
}

int run_endpoints_test(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    struct endpoint_settings *managed;
    int code;
    const struct endpoint_settings *e = tested_endpoint(c, name, &managed,
                                                        &code);
    json_t *reply;
    bool delivered;

    reply = e ? ask_one(c, e, &code) : NULL;
    endpoint_document_free(managed);
    if (!reply)
        return code;
    json_object_set_new(reply, "endpoint", json_string(name));
    delivered = strcmp(text_of(reply, "verdict"), "delivered") == 0;
    if (c->json) {
        print_json(reply);
    } else {
        print_exchange(c, reply);
        json_decref(reply);
    }
    return delivered ? 0 : EXIT_REFUSED;
}
