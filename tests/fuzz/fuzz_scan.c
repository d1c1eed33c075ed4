/* fuzz_scan: a JSON pointer (up to the first 0 byte) and a text: what json_scan() finds,
 * Jansson finds, too. */
#include "expr.h"
#include "fuzz.h"
#include "headers.h"
#include "json_scan.h"
#include "json_text.h"

enum { VALUE_MAX_BYTES = 1 << 20 };

static size_t steps(const char *pointer)
{
    size_t n = 0;

    for (; *pointer; pointer++)
        n += *pointer == '/';
    return n ? n : 1;
}

/* Compares the value that the scan found with the parsed tree. */
static void try_scan(const char *pointer, struct bytes body, json_t *doc)
{
    struct bytes value;
    size_t read_bytes = 0;
    enum json_scanned scanned = json_scan(body, pointer, &value, &read_bytes);

    fuzz_check(read_bytes <= steps(pointer) * body.n);
    if (scanned == JSON_SCAN_UNSURE)
        return;
    fuzz_check(doc);
    if (scanned == JSON_SCAN_FOUND) {
        const char *from = body.p, *found = value.p;
        json_t *part = json_loadb(value.p, value.n,
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        fuzz_check(value.n && found >= from &&
                   found + value.n <= from + body.n);
        fuzz_check(part);
        if (!*pointer)
            fuzz_check(json_equal(part, doc));
        json_decref(part);
    }
}

/* The value, or why there is none, by the text and by a tree. */
static void try_value(const struct expr *e, struct bytes body, json_t *doc)
{
    struct subject by_text = {.body = body};
    struct subject by_tree = {.json = doc, .json_tried = true};
    const char *why_a = NULL, *why_b = NULL;
    struct buf headers, a, b;
    gr_rc rc;

    /* Not a form. */
    buf_init(&headers, 100);
    headers_put(&headers, "Content-Type", (struct bytes){"text/json", 9});
    by_text.headers = (struct bytes){headers.data, headers.len};
    buf_init(&a, VALUE_MAX_BYTES);
    buf_init(&b, VALUE_MAX_BYTES);
    rc = expr_value(e, &by_text, &a, &why_a);
    fuzz_check(rc == expr_value(e, &by_tree, &b, &why_b));
    fuzz_check(a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len)));
    fuzz_check(rc == GR_OK || why_a == why_b);
    /* Asked so often that it makes a tree. */
    for (int i = 0; i < 12; i++) {
        buf_reset(&a);
        fuzz_check(expr_value(e, &by_text, &a, &why_a) == rc);
    }
    fuzz_check(a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len)));
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&headers);
    subject_fini(&by_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    char *pointer = fuzz_text(&in);
    char *text = gr_printf("json:%s", pointer);
    struct bytes body = fuzz_rest(&in);
    const char *why;
    struct expr e;

    if (expr_parse(&e, text, &why) == GR_OK) {
        json_t *doc = json_loadb(body.p, body.n,
                                 JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        json_t *mended = json_read(body, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                   NULL);

        try_scan(pointer, body, doc);
        if (mended)
            try_value(&e, body, mended);
        json_decref(mended);
        json_decref(doc);
        expr_fini(&e);
    }
    free((void *)body.p);
    free(text);
    free(pointer);
    return 0;
}
