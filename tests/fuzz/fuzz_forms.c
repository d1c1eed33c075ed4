/* fuzz_forms: form bodies and queries. The first part is a field's name. */
#include "form.h"
#include "fuzz.h"

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
    buf_fini(&value);
    buf_fini(&sorted);
    free((void *)form.p);
    free(name);
    return 0;
}
