/* fuzz_metrics: frames of the metrics socket, several in a row, each with its
 * length (two bytes, little endian) before it. */
#include "collector.h"
#include "fuzz.h"
#include "metrics_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct collector *g = collector_new(1700000000000LL, 10000);
    int64_t now_ms = 1000;

    while (in.n >= 2) {
        size_t length = fuzz_byte(&in);
        struct fuzz_input frame;
        struct bytes bytes;
        bool taken;

        length |= (size_t)fuzz_byte(&in) << 8;
        frame = (struct fuzz_input){in.p, length < in.n ? length : in.n};
        in.p += frame.n;
        in.n -= frame.n;
        bytes = fuzz_rest(&frame);
        taken = collector_frame(g, bytes, now_ms) == GR_OK;
        if (taken) {
            json_t *json = metrics_frame_json(bytes);

            fuzz_check(metrics_frame_sound(bytes));
            json_decref(json);
        }
        free((void *)bytes.p);
        now_ms += 1000;
    }
    for (const struct collected_metric *m = collector_metrics(g); m;
         m = m->next)
        (void)collector_sum(g, SERIES(m->name), now_ms);
    collector_free(g);
    return 0;
}
