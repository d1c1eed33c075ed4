/* wire: encodes and decodes every frame and message, made from the lists in schema.h. */
#include "wire.h"
#include "bounds.h"
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

/* ---- encode ---- */

static int append(void *data, const char *p, size_t n)
{
    buf_put(data, p, n);
    return 0;
}

static void put_head(msgpack_packer *pk, struct buf *out, int kind, int version,
                     size_t fields)
{
    msgpack_packer_init(pk, out, append);
    msgpack_pack_array(pk, fields + 2);
    msgpack_pack_int(pk, kind);
    msgpack_pack_int(pk, version);
}

static void put_u64(msgpack_packer *pk, wire_u64 v)
{
    msgpack_pack_uint64(pk, v);
}

static void put_i64(msgpack_packer *pk, wire_i64 v)
{
    msgpack_pack_int64(pk, v);
}

static void put_str(msgpack_packer *pk, wire_str v)
{
    msgpack_pack_str(pk, v.n);
    msgpack_pack_str_body(pk, v.p, v.n);
}

static void put_bin(msgpack_packer *pk, wire_bin v)
{
    msgpack_pack_bin(pk, v.n);
    msgpack_pack_bin_body(pk, v.p, v.n);
}

/* ---- decode: a cursor that never passes its end ---- */

struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static uint64_t take_be(struct cursor *c, int bytes)
{
    uint64_t v = 0;

    if (c->end - c->p < bytes) {
        c->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        v = v << 8 | *c->p++;
    return v;
}

static struct bytes take_bytes(struct cursor *c, uint64_t n)
{
    struct bytes b = {c->p, 0};

    if (n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        return b;
    }
    b.n = (size_t)n;
    c->p += n;
    return b;
}

static uint64_t take_array(struct cursor *c)
{
    uint8_t tag = (uint8_t)take_be(c, 1);

    if ((tag & 0xf0) == 0x90)
        return tag & 0x0f;
    if (tag == 0xdc)
        return take_be(c, 2);
    if (tag == 0xdd)
        return take_be(c, 4);
    c->bad = true;
    return 0;
}

static wire_u64 take_u64(struct cursor *c)
{
    uint8_t tag = (uint8_t)take_be(c, 1);

    if (tag < 0x80)
        return tag;
    if (tag >= 0xcc && tag <= 0xcf)
        return take_be(c, 1 << (tag - 0xcc));
    c->bad = true;
    return 0;
}

static wire_i64 take_i64(struct cursor *c)
{
    uint8_t tag = (uint8_t)take_be(c, 1);
    uint64_t v;

    if (tag < 0x80)
        return tag;
    if (tag >= 0xe0)
        return (int8_t)tag;
    switch (tag) {
    case 0xcc:
    case 0xcd:
    case 0xce:
        return (wire_i64)take_be(c, 1 << (tag - 0xcc));
    case 0xcf:
        v = take_be(c, 8);
        if (v > INT64_MAX)
            c->bad = true;
        return c->bad ? 0 : (wire_i64)v;
    case 0xd0:
        return (int8_t)take_be(c, 1);
    case 0xd1:
        return (int16_t)take_be(c, 2);
    case 0xd2:
        return (int32_t)take_be(c, 4);
    case 0xd3:
        return (wire_i64)take_be(c, 8);
    default:
        c->bad = true;
        return 0;
    }
}

static wire_str take_str(struct cursor *c)
{
    uint8_t tag = (uint8_t)take_be(c, 1);
    struct bytes s;

    if ((tag & 0xe0) == 0xa0)
        s = take_bytes(c, tag & 0x1f);
    else if (tag >= 0xd9 && tag <= 0xdb)
        s = take_bytes(c, take_be(c, 1 << (tag - 0xd9)));
    else
        s = (struct bytes){c->p, 0}, c->bad = true;
    if (s.n && memchr(s.p, 0, s.n))
        c->bad = true;
    return s;
}

static wire_bin take_bin(struct cursor *c)
{
    uint8_t tag = (uint8_t)take_be(c, 1);

    if (tag >= 0xc4 && tag <= 0xc6)
        return take_bytes(c, take_be(c, 1 << (tag - 0xc4)));
    c->bad = true;
    return (struct bytes){c->p, 0};
}

static void take_head(struct cursor *c, struct bytes in, uint64_t kind,
                      uint64_t version, uint64_t fields)
{
    *c = (struct cursor){in.p, (const uint8_t *)in.p + in.n, false};
    if (take_array(c) != fields + 2 || take_u64(c) != kind ||
        take_u64(c) != version)
        c->bad = true;
}

/* ---- one pair of functions for each of schema.h's lists ---- */

#define COUNT_FIELD(type, name, note) +1
#define PUT_FIELD(type, name, note)   put_##type(&pk, v->name);
#define TAKE_FIELD(type, name, note)  v->name = take_##type(&c);
#define M(number, NAME, name, version)                                   \
    void wire_put_##name(struct buf *out, const struct wire_##name *v)   \
    {                                                                    \
        msgpack_packer pk;                                               \
                                                                         \
        put_head(&pk, out, number, version, 0 WIRE_##NAME(COUNT_FIELD)); \
        WIRE_##NAME(PUT_FIELD)                                           \
    }                                                                    \
                                                                         \
    gr_rc wire_get_##name(struct wire_##name *v, struct bytes in)        \
    {                                                                    \
        struct cursor c;                                                 \
                                                                         \
        take_head(&c, in, number, version, 0 WIRE_##NAME(COUNT_FIELD));  \
        WIRE_##NAME(TAKE_FIELD) return c.bad || c.p != c.end ? GR_REFUSE \
                                                             : GR_OK;    \
    }
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M

gr_rc wire_get_stored_task(struct wire_task *v, struct bytes in)
{
    struct wire_head head;
    struct cursor c;

    if (!wire_is_unknown_version(&head, in) || head.version != 1)
        return wire_get_task(v, in);
    take_head(&c, in, WIRE_KIND_TASK, 1, 0 WIRE_TASK_1(COUNT_FIELD));
    WIRE_TASK_1(TAKE_FIELD)
    v->retry = v->ordering_key = (struct bytes){"", 0};
    v->high = 0;
    return c.bad || c.p != c.end ? GR_REFUSE : GR_OK;
}

int wire_kind(struct bytes in)
{
    struct cursor c = {in.p, (const uint8_t *)in.p + in.n, false};
    uint64_t kind;

    take_array(&c);
    kind = take_u64(&c);
    return c.bad || !*wire_kind_name(kind > 255 ? 0 : (int)kind) ? 0
                                                                 : (int)kind;
}

const char *wire_kind_name(int kind)
{
    switch (kind) {
#define M(number, NAME, name, version) \
    case number:                       \
        return #name;
        WIRE_FRAMES(M)
        WIRE_MESSAGES(M)
        WIRE_RECORDS(M)
#undef M
    default:
        return "";
    }
}

uint64_t wire_known_version(int kind)
{
    switch (kind) {
#define M(number, NAME, name, version) \
    case number:                       \
        return version;
        WIRE_FRAMES(M)
        WIRE_MESSAGES(M)
        WIRE_RECORDS(M)
#undef M
    default:
        return 0;
    }
}

bool wire_is_unknown_version(struct wire_head *out, struct bytes in)
{
    struct cursor c = {in.p, (const uint8_t *)in.p + in.n, false};
    uint64_t kind, version;

    take_array(&c);
    kind = take_u64(&c);
    version = take_u64(&c);
    if (c.bad || kind < 1 || kind > WIRE_KIND_MAX || version < 1)
        return false;
    *out = (struct wire_head){.kind = (int)kind, .version = version};
    out->from = take_str(&c);
    if (c.bad)
        out->from = (struct bytes){"", 0};
    return wire_known_version((int)kind) != version;
}

bool wire_sender(struct bytes frame, struct bytes *from, struct bytes *inbox)
{
    struct cursor c = {frame.p, (const uint8_t *)frame.p + frame.n, false};

    take_array(&c);
    take_u64(&c);
    take_u64(&c);
    *from = take_str(&c);
    *inbox = take_str(&c);
    return !c.bad;
}

/* ---- small helpers ---- */

struct bytes wire_text(const char *s)
{
    return (struct bytes){s ? s : "", s ? strlen(s) : 0};
}

bool wire_is(struct bytes s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

void wire_copy(char *out, size_t out_bytes, struct bytes s)
{
    size_t n = s.n < out_bytes - 1 ? s.n : out_bytes - 1;

    memcpy(out, s.p, n);
    out[n] = 0;
}

char *wire_dup(struct bytes s)
{
    return gr_strndup(s.p, s.n);
}

/* ---- docs/WIRE.md ---- */

#define DOCUMENT_FIELD(type, name, note) \
    buf_puts(out, "| `" #name "` | " #type " | " note " |\n");
#define M(number, NAME, name, version)                                     \
    buf_puts(out, "\n### `" #name "` (kind " #number ", version " #version \
                  ")\n\n| field | type | |\n|---|---|---|\n");             \
    WIRE_##NAME(DOCUMENT_FIELD)

void wire_document(struct buf *out)
{
    buf_puts(
        out,
        "# What crosses a process boundary\n\n"
        "Made from `proto/schema.h`; do not edit. Each is a msgpack array "
        "`[kind, version, field, …]`\nin this order; kinds are numbers, and "
        "no name is sent. Decoding is strict: known kind and version,\n"
        "exact field count, nothing behind.\n"
        "A frame of another version is dropped, and a message of one "
        "waits at its sender; the\nreceiver's log says so once.\n"
        "\n## Frames: what a socket carries\n");
    WIRE_FRAMES(M)
    buf_puts(out, "\n## Messages: what the durable link carries\n");
    WIRE_MESSAGES(M)
    buf_puts(out, "\n## Records: inside a bin field\n");
    WIRE_RECORDS(M)
}
#undef M
