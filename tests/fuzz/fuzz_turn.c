/* fuzz_turn: a form of a turn. What turn_read() accepts has all its pages inside of it, and is written again with the same bytes. */
#include "fuzz.h"
#include "turn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct bytes form = fuzz_rest(&in);
    struct turn_head head;

    if (turn_read(form, &head) == GR_OK) {
        uint32_t before = 0, page;
        struct buf again;

        buf_init(&again, form.n);
        turn_put_head(&again, &head);
        for (uint32_t i = 0; i < head.page_count; i++, before = page) {
            const uint8_t *image = turn_page(form, &head, i, &page);

            fuzz_check(page > before && page <= head.size_pages);
            turn_put_page(&again, page, image, head.page_bytes);
        }
        fuzz_check(!again.failed && again.len == form.n &&
                   memcmp(again.data, form.p, form.n) == 0);
        buf_fini(&again);
    }
    free((void *)form.p);
    return 0;
}
