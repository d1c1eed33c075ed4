/* fuzz_wire: frames, messages and records as another process would send them.
 *
 * Whatever is decoded can be encoded again, and decodes to the same bytes. */
#include "epochs.h"
#include "fuzz.h"
#include "headers.h"
#include "wire.h"

#define M(number, NAME, name, version)                                         \
    static void try_##name(struct bytes in)                                    \
    {                                                                          \
        struct wire_##name v;                                                  \
        struct buf once, twice;                                                \
                                                                               \
        if (wire_get_##name(&v, in) != GR_OK)                                  \
            return;                                                            \
        buf_init(&once, in.n + 1000);                                          \
        buf_init(&twice, in.n + 1000);                                         \
        wire_put_##name(&once, &v);                                            \
        fuzz_check(!once.failed);                                              \
        fuzz_check(wire_get_##name(&v, (struct bytes){once.data, once.len}) == \
                   GR_OK);                                                     \
        wire_put_##name(&twice, &v);                                           \
        fuzz_check(once.len == twice.len &&                                    \
                   memcmp(once.data, twice.data, once.len) == 0);              \
        buf_fini(&once);                                                       \
        buf_fini(&twice);                                                      \
    }
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M

static void try_packed(struct bytes in)
{
    struct bytes name, value;
    struct epochs epochs = {0};
    size_t at = 0;

    if (headers_valid(in))
        while (headers_next(in, &at, &name, &value)) {
            fuzz_check(name.n <= in.n && value.n <= in.n);
        }
    if (epochs_get(&epochs, in, in.n / 16) == GR_OK)
        for (size_t i = 1; i < epochs.count; i++)
            fuzz_check(epochs.list[i - 1].first < epochs.list[i].first);
    epochs_fini(&epochs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct bytes all = fuzz_rest(&in);
    struct wire_head other;

    if (wire_is_unknown_version(&other, all))
        fuzz_check(other.kind > 0 && other.kind <= WIRE_KIND_MAX &&
                   other.from.n < n &&
                   wire_known_version(other.kind) != other.version);

    switch (wire_kind(all)) {
#define M(number, NAME, name, version) \
    case WIRE_KIND_##NAME:             \
        try_##name(all);               \
        break;
        WIRE_FRAMES(M)
        WIRE_MESSAGES(M)
        WIRE_RECORDS(M)
#undef M
    default:
        break;
    }
    try_packed(all);
    free((void *)all.p);
    return 0;
}
