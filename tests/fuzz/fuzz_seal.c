/* fuzz_seal: sealed parts. The input is the parts themselves, or a text that is sealed, and what then happens to its parts. What
 * opens is the text that was sealed. */
#include "fuzz.h"
#include "seal.h"

enum { PARTS_MAX = 16, PLAIN_MAX_BYTES = 1 << 20 };

static const struct seal_about about = {
    .kind = SEAL_TURN, .process = "ingress", .epoch = 5, .n = 7};

struct parts {
    struct bytes at[PARTS_MAX]; /* each in memory of its own */
    size_t count;
};

static void add(struct parts *p, struct bytes part)
{
    struct fuzz_input in = {part.p, part.n};

    if (p->count < PARTS_MAX)
        p->at[p->count++] = fuzz_rest(&in);
}

/* Parts that end at two 0 bytes are rare, so each has a length before it. */
static void read_parts(struct fuzz_input *in, struct parts *p)
{
    while (in->n) {
        size_t n = fuzz_byte(in);

        if (n > in->n)
            n = in->n;
        add(p, (struct bytes){in->p, n});
        in->p += n;
        in->n -= n;
    }
}

/* The first byte chooses whether the text is repeated, so that it has several parts. */
static struct buf read_text(struct fuzz_input *in)
{
    uint8_t times = fuzz_byte(in);
    struct bytes part = fuzz_part(in);
    struct buf text;
    uint32_t v = 1;

    buf_init(&text, PLAIN_MAX_BYTES);
    buf_put(&text, part.p, part.n);
    if (times >= 0xf8) /* not compressible, and longer than a part */
        for (int i = 0; i < 80 * 1024; i++) {
            v = v * 1664525 + 1013904223;
            buf_put(&text, &v, sizeof v);
        }
    else
        for (int i = 0; i < times; i++)
            buf_put(&text, part.p, part.n);
    return text;
}

/* Each step is a byte for what is done, one for the part, two for where in it. Returns whether anything is different. */
static bool change(struct fuzz_input *in, struct parts *p)
{
    bool changed = false;

    while (in->n && p->count) {
        uint8_t what = fuzz_byte(in) % 4;
        struct bytes *part = &p->at[fuzz_byte(in) % p->count];
        size_t at = (size_t)fuzz_byte(in) << 8 | fuzz_byte(in);
        struct bytes other = *part;

        switch (what) {
        case 0: /* flips a bit */
            if (!part->n)
                break;
            ((uint8_t *)part->p)[at % part->n] ^= (uint8_t)(1 << at % 8);
            return true;
        case 1: /* cuts */
            if (at >= part->n)
                break;
            part->n = at;
            return true;
        case 2: /* exchanges */
            other = p->at[at % p->count];
            changed |= other.p != part->p;
            p->at[at % p->count] = *part;
            *part = other;
            return changed;
        default: /* removes the last */
            free((void *)p->at[--p->count].p);
            return true;
        }
    }
    return changed;
}

static void open_parts(struct sealer *s, const struct parts *p,
                       const struct buf *expected)
{
    char why[200] = "";
    struct buf plain;
    gr_rc rc;

    buf_init(&plain, PLAIN_MAX_BYTES + 6);
    buf_puts(&plain, "before");
    rc = sealer_open_parts(s, &about, p->at, p->count, &plain, why);
    fuzz_check((rc == GR_OK) == (expected != NULL));
    if (rc == GR_OK)
        fuzz_check(plain.len == 6 + expected->len &&
                   (!expected->len ||
                    !memcmp(plain.data + 6, expected->data, expected->len)));
    else
        fuzz_check(*why && !strcmp(plain.data, "before"));
    buf_fini(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t key[SEAL_KEY_BYTES] = {1};
    struct sealer *s = sealer_open(key);
    struct fuzz_input in = {data, n};
    struct parts parts = {0};

    if (fuzz_byte(&in) % 2) {
        read_parts(&in, &parts);
        open_parts(s, &parts, NULL);
    } else {
        struct buf text = read_text(&in);
        struct sealed_parts sealed;

        sealer_seal(s, &about, (struct bytes){text.data, text.len}, &sealed);
        for (size_t i = 0; i < sealed.count; i++)
            add(&parts,
                (struct bytes){sealed.parts[i].data, sealed.parts[i].len});
        open_parts(s, &parts, change(&in, &parts) ? NULL : &text);
        sealed_parts_fini(&sealed);
        buf_fini(&text);
    }
    while (parts.count)
        free((void *)parts.at[--parts.count].p);
    sealer_close(s);
    return 0;
}
