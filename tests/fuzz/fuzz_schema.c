/* fuzz_schema: a JSON Schema, and a value that is checked against it: the text up to the first 0
 * byte, and the rest. The same check gives the same result, and names a place and a rule. */
#include "fuzz.h"
#include "json_schema.h"
#include "json_text.h"

static void try_value(const struct json_schema *s, struct bytes text)
{
    struct json_schema_wrong wrong, again;
    json_error_t error;
    json_t *value = json_read(
        text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL,
        &error);
    bool fits;

    if (!value)
        return;
    fits = json_schema_fits(s, value, &wrong);
    fuzz_check(json_schema_fits(s, value, &again) == fits);
    fuzz_check(strcmp(wrong.path, again.path) == 0);
    fuzz_check(fits || (*wrong.rule && *wrong.why));
    fuzz_check(utf8_valid((struct bytes){wrong.path, strlen(wrong.path)}));
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct bytes schema = fuzz_part(&in), value = fuzz_rest(&in);
    struct json_schema_wrong wrong;
    struct json_schema *s = json_schema_new(schema, &wrong);

    if (s)
        try_value(s, value);
    else
        fuzz_check(*wrong.why && wrong.rule);
    json_schema_free(s);
    free((char *)(uintptr_t)value.p);
    return 0;
}
