/* fuzz_expressions: a field expression (up to the first 0 byte), asked of a
 * request whose headers and body are the rest. What is printed of an expression
 * reads back as the same one. */
#include "expr.h"
#include "fuzz.h"
#include "glob.h"
#include "headers.h"

static void try_printed(const struct expr *e)
{
    struct expr again;
    struct buf once, twice;
    const char *why;

    buf_init(&once, 1 << 20);
    buf_init(&twice, 1 << 20);
    expr_print(e, &once);
    fuzz_check(expr_parse(&again, once.data, &why) == GR_OK);
    expr_print(&again, &twice);
    fuzz_check(strcmp(once.data, twice.data) == 0);
    expr_fini(&again);
    buf_fini(&once);
    buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    char *text = fuzz_text(&in);
    const char *why = NULL;
    struct expr e;

    if (expr_parse(&e, text, &why) == GR_OK) {
        struct buf headers, out;
        struct bytes body;
        struct subject s = {.source = "s",
                            .provider = "custom",
                            .id = "1",
                            .type = "a.b",
                            .workspace = "w"};

        try_printed(&e);
        buf_init(&headers, 1 << 20);
        headers_put(&headers, ":query", fuzz_part(&in));
        headers_put(&headers, "content-type", fuzz_part(&in));
        headers_put(&headers, "x-a", fuzz_part(&in));
        body = fuzz_rest(&in);
        s.headers = (struct bytes){headers.data, headers.len};
        s.body = body;
        buf_init(&out, 300);
        if (expr_value(&e, &s, &out, &why) == GR_OK)
            fuzz_check(out.len > 0 && !out.failed);
        else
            fuzz_check(out.len == 0 && why && *why);
        glob_match(text, out.data ? out.data : "");
        buf_fini(&out);
        subject_fini(&s);
        buf_fini(&headers);
        free((void *)body.p);
        expr_fini(&e);
    } else {
        fuzz_check(why && *why);
    }
    free(text);
    return 0;
}
