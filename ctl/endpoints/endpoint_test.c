/* endpoints test: one signed test event to an endpoint, sent by a deliverer, so
 * with its guard, TLS and signatures, and the exchange as it was. */
#include "ask.h"
#include "conf.h"
#include "endpoint_config.h"
#include "table.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Beside the attempt's own time. */
enum { MARGIN_MS = 10 * 1000 };

static const struct endpoint_settings *find(struct ctl *c, const char *name)
{
    const struct settings *s = c->settings;
    const struct endpoint_settings *e = settings_endpoint(s, name);
    struct conf_near near = {.text = name};
    char hint[100];

    if (e)
        return e;
    for (size_t i = 0; i < s->endpoint_count; i++)
        conf_near_try(&near, s->endpoints[i].name);
    complain(EXIT_REFUSED, "there is no endpoint \"%s\"%s", name,
             conf_near_hint(&near, hint));
    return NULL;
}

static json_t *question(const struct endpoint_settings *e)
{
    struct buf raw;
    char *text;
    json_t *args;

    buf_init(&raw, ENDPOINT_CONFIG_MAX_BYTES);
    endpoint_config_encode(e, &raw);
    text = gr_alloc(raw.len * 4 / 3 + 8);
    EVP_EncodeBlock((unsigned char *)text, (unsigned char *)raw.data,
                    (int)raw.len);
    args = json_pack("{s:s}", "config", text);
    OPENSSL_cleanse(text, strlen(text));
    OPENSSL_cleanse(raw.data, raw.len);
    free(text);
    buf_fini(&raw);
    return args;
}

/* Any deliverer will do: the first that is there. NULL: *code says why not, and
 * a sentence was printed. */
static json_t *ask_one(struct ctl *c, const struct endpoint_settings *e,
                       int *code)
{
    struct processes p;
    char why[200] = "";
    bool unreachable = true;
    json_t *reply = NULL;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && unreachable; i++)
        if (process_rank(p.names[i]) == process_rank("deliverer"))
            reply = ask(c, p.names[i], "test", question(e),
                        (int)e->timeout_ms + MARGIN_MS, &unreachable, why);
    processes_fini(&p);
    if (!reply)
        *code = unreachable ? complain_away(c, "deliverer", why)
                            : complain(EXIT_REFUSED, "refused: %s", why);
    return reply;
}

/* ---- text output ---- */

/* Line breaks stay; other control characters are made harmless. */
static void print_lines(const json_t *object, const char *key, const char *mark)
{
    const char *text = json_string_value(json_object_get(object, key));
    char *copy = gr_strdup(text ? text : ""), *rest = copy, *line;

    while ((line = strsep(&rest, "\n"))) {
        size_t n = strlen(line);
        char *shown;

        if (n && line[n - 1] == '\r')
            line[n - 1] = 0;
        shown = harmless(line);
        if (*shown || rest)
            printf("%s %s\n", mark, shown);
        free(shown);
    }
    free(copy);
}

static void print_request(const json_t *request)
{
    json_t *header;
    size_t i;

    printf("> %s %s\n", text_of(request, "method"), text_of(request, "url"));
    json_array_foreach(json_object_get(request, "headers"), i, header)
    {
        char *line = gr_printf("%s: %s",
                               json_string_value(json_array_get(header, 0)),
                               json_string_value(json_array_get(header, 1)));
        char *shown = harmless(line);

        printf("> %s\n", shown);
        free(shown);
        free(line);
    }
    printf(">\n");
    print_lines(request, "body", ">");
}

static void print_response(const json_t *response)
{
    print_lines(response, "headers", "<");
    printf("<\n");
    print_lines(response, "body", "<");
}

static void print_timings(const json_t *t)
{
    static const char *const steps[][2] = {{"dns_ms", "address"},
                                           {"connect_ms", "connected"},
                                           {"tls_ms", "TLS"},
                                           {"first_byte_ms", "first byte"},
                                           {"total_ms", "all"}};
    const char *comma = "";

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const json_t *ms = json_object_get(t, steps[i][0]);

        if (!json_is_number(ms))
            continue;
        printf("%s%s %.1f ms", comma, steps[i][1], json_number_value(ms));
        comma = ", ";
    }
    printf("\n");
}

static void print_exchange(struct ctl *c, const json_t *a)
{
    const char *verdict = text_of(a, "verdict"), *error = text_of(a, "error");
    const char *reason = text_of(a, "reason");
    enum colour colour = strcmp(verdict, "delivered") == 0 ? GREEN : RED;

    print_request(json_object_get(a, "request"));
    printf("\n");
    if (!json_is_null(json_object_get(a, "response"))) {
        print_response(json_object_get(a, "response"));
        printf("\n");
    }
    printf("%s%s%s%s%s%s%s%s, sent by %s\n", colour_on(colour, c->colour),
           verdict, colour_off(colour, c->colour), *reason ? " (" : "", reason,
           *reason ? ")" : "", *error ? ": " : "", error,
           text_of(a, "deliverer"));
    print_timings(json_object_get(a, "timings"));
}

int run_endpoints_test(struct ctl *c)
{
    static const char *const keys[] = {"endpoint_defaults", "endpoints",
                                       "retry_policies", "include", NULL};
    const struct endpoint_settings *e;
    json_t *reply;
    bool delivered;
    int code = 0;

    need_settings(c, keys,
                  "endpoints test needs `endpoints`, `endpoint_defaults` and "
                  "`retry_policies` of the configuration with their secrets: "
                  "run it as a user and in an environment that can read them");
    e = find(c, c->parsed.args[0]);
    if (!e)
        return EXIT_REFUSED;
    reply = ask_one(c, e, &code);
    if (!reply)
        return code;
    json_object_set_new(reply, "endpoint", json_string(e->name));
    delivered = strcmp(text_of(reply, "verdict"), "delivered") == 0;
    if (c->json) {
        print_json(reply);
    } else {
        print_exchange(c, reply);
        json_decref(reply);
    }
    return delivered ? 0 : EXIT_REFUSED;
}
