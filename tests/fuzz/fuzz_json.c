/* fuzz_json: bodies as JSON: a producer's event, a list that is split, and texts
 * that become JSON strings. */
#include "fuzz.h"
#include "json_scan.h"
#include "json_text.h"
#include "published.h"
#include "split.h"

/* What the scanner is sure of, Jansson reads, too. */
static void try_member(struct bytes body)
{
    struct bytes found;
    json_t *all, *data;

    if (json_scan_member(body, "data", &found) == JSON_SCAN_UNSURE)
        return;
    all = json_loadb(body.p, body.n,
                     JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                     NULL);
    fuzz_check(all);
    if (json_scan_member(body, "data", &found) == JSON_SCAN_FOUND) {
        data = json_loadb(found.p, found.n, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                          NULL);
        fuzz_check(data && json_equal(data, json_object_get(all, "data")));
        json_decref(data);
    } else {
        fuzz_check(!json_object_get(all, "data"));
    }
    json_decref(all);
}

static void try_published(struct bytes body)
{
    struct published_wrong wrong = {0};
    struct published p;

    if (published_read(&p, body, &wrong) == GR_OK) {
        struct buf out;
        json_t *event, *data = published_data(&p);

        fuzz_check(data);
        json_decref(data);
        fuzz_check(p.type && *p.type && p.workspace && *p.workspace);
        buf_init(&out, 2 * body.n + 10000);
        published_body(&p, "evt_01M7ZTFTJX2GJ88K9BVSR291WA", 1700000000000LL,
                       &out);
        fuzz_check(!out.failed);
        event = json_read((struct bytes){out.data, out.len},
                          JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
        fuzz_check(event);
        json_decref(event);
        buf_fini(&out);
    }
    published_fini(&p);
}

static void try_split(struct bytes body)
{
    const char *why = NULL;
    struct split s;

    if (split_body(body, &s, &why) == GR_OK) {
        const char *end = (const char *)body.p + body.n;

        for (size_t i = 0; i < s.count; i++)
            fuzz_check((const char *)s.parts[i].p >= (const char *)body.p &&
                       (const char *)s.parts[i].p + s.parts[i].n <= end);
    } else {
        fuzz_check(why && *why);
    }
    split_fini(&s);
}

static void try_text(struct bytes body)
{
    json_t *text = json_text(body);
    char *printed = json_dumps(text, JSON_ENCODE_ANY);

    fuzz_check(printed);
    if (utf8_valid(body))
        fuzz_check(json_string_length(text) == body.n);
    free(printed);
    json_decref(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct bytes body = fuzz_rest(&in);

    try_member(body);
    try_published(body);
    try_split(body);
    try_text(body);
    free((void *)body.p);
    return 0;
}
