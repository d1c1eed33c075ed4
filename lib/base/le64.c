/* le64: reads and writes 64-bit numbers byte by byte. */
#include "le64.h"

void set_le64(void *out, uint64_t v)
{
    uint8_t *raw = out;

    for (int i = 0; i < 8; i++)
        raw[i] = (uint8_t)(v >> (8 * i));
}

void put_le64(struct buf *out, uint64_t v)
{
    uint8_t raw[8];

    set_le64(raw, v);
    buf_put(out, raw, sizeof raw);
}

uint64_t get_le64(const void *p)
{
    const uint8_t *raw = p;
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | raw[i];
    return v;
}
