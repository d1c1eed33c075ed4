/* A source of one provider, out of a configuration as any process reads it. */
#include "alloc.h"
#include "config.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL
#define URL    "https://hooks.example.com/in/s"

static char folder[] = "/tmp/grapnel-test-profiles-XXXXXX";

static json_t *without_dollars(const char *text)
{
    struct buf b;
    json_t *out;

    buf_init(&b, 100000);
    for (; *text; text++)
        buf_puts(&b, *text == '$' ? "$$" : (char[]){*text, 0});
    out = json_string(b.data ? b.data : "");
    buf_fini(&b);
    return out;
}

/* JSON is YAML. `secrets` ends with NULL. */
static struct settings *configured(const char *provider,
                                   const char *const *secrets, const char *url,
                                   const char *webhook_id)
{
    json_t *source = json_pack("{s:s, s:s, s:[]}", "name", "s", "provider",
                               provider, "secrets");
    json_t *doc = json_pack("{s:[o]}", "sources", source);
    struct settings *s;
    struct buf errors;

    for (; *secrets; secrets++)
        json_array_append_new(json_object_get(source, "secrets"),
                              without_dollars(*secrets));
    json_object_set_new(source, "public_url", json_string(url));
    json_object_set_new(source, "webhook_id", json_string(webhook_id));
    assert_int_equal(json_dump_file(doc, "g.yaml", 0), 0);
    json_decref(doc);
    buf_init(&errors, 1 << 20);
    s = settings_load("g.yaml", &errors);
    if (!s)
        fail_msg("%s: %s", provider, errors.data);
    buf_fini(&errors);
    return s;
}

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static struct bytes held(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}
