/* fuzz_forms: form bodies and queries. The first part is a field's name. */
#include "form.h"
#include "fuzz.h"
#include <string.h>

static bool hides(const void *arg, struct bytes name, struct bytes value)
{
    const char *which = arg;

    (void)value;
    return name.n == strlen(which) && memcmp(name.p, which, name.n) == 0;
}

static bool hides_none(const void *arg, struct bytes name, struct bytes value)
{
    (void)arg, (void)name, (void)value;
    return false;
}

static void only_the_field_is_hidden(struct bytes form, const char *name)
{
    struct buf same, hidden, value;
    struct bytes shown;

    buf_init(&same, form.n + 1);
    buf_init(&hidden, 2 * form.n + 1);
    buf_init(&value, 2 * form.n + 1);
    form_hide(form, hides_none, NULL, "~", &same);
    fuzz_check(same.len == form.n &&
               (!form.n || memcmp(same.data, form.p, form.n) == 0));
    form_hide(form, hides, name, "~", &hidden);
    shown = (struct bytes){hidden.data ? hidden.data : "", hidden.len};
    fuzz_check(!hidden.failed);
    if (form_get(shown, name, &value) > 0 && value.len)
        fuzz_check(value.len == 1 && *value.data == '~');
    buf_fini(&same);
    buf_fini(&hidden);
    buf_fini(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    char *name = fuzz_text(&in);
    struct bytes form = fuzz_rest(&in);
    struct buf value, sorted;

    buf_init(&value, form.n + 1);
    buf_init(&sorted, form.n + 1);
    if (form_get(form, name, &value) == 0)
        fuzz_check(value.len == 0);
    /* Decoding never makes a form longer. */
    fuzz_check(!value.failed);
    if (form_sorted(form, &sorted) == GR_OK)
        fuzz_check(!sorted.failed && sorted.len <= form.n);
    only_the_field_is_hidden(form, name);
    buf_fini(&value);
    buf_fini(&sorted);
    free((void *)form.p);
    free(name);
    return 0;
}
