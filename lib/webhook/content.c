/* content: fills the template of a scheme with the parts of a request, in pieces. */
#include "form.h"
#include "signature.h"
#include <stdio.h>
#include <string.h>

enum placeholder {
    PLACEHOLDER_BODY,
    PLACEHOLDER_TS,
    PLACEHOLDER_ID,
    PLACEHOLDER_URL,
    PLACEHOLDER_METHOD,
    PLACEHOLDER_SORTED_FORM,
    PLACEHOLDER_CRC32,
    PLACEHOLDER_WEBHOOK_ID,
    PLACEHOLDER_TOKEN,
    PLACEHOLDER_COUNT
};

static const char *const placeholders[] = {
    [PLACEHOLDER_BODY] = "body",     [PLACEHOLDER_TS] = "ts",
    [PLACEHOLDER_ID] = "id",         [PLACEHOLDER_URL] = "url",
    [PLACEHOLDER_METHOD] = "method", [PLACEHOLDER_SORTED_FORM] = "sorted_form",
    [PLACEHOLDER_CRC32] = "crc32",   [PLACEHOLDER_WEBHOOK_ID] = "webhook_id",
    [PLACEHOLDER_TOKEN] = "token",
};

static enum placeholder placeholder_named(const char *name, size_t n)
{
    enum placeholder h = 0;

    while (h < PLACEHOLDER_COUNT && (strlen(placeholders[h]) != n ||
                                     memcmp(placeholders[h], name, n) != 0))
        h++;
    return h;
}

/* The next piece of the template: a placeholder, or the text up to the next one. */
static const char *step(const char *at, enum placeholder *placeholder,
                        struct bytes *text)
{
    const char *close = *at == '{' ? strchr(at, '}') : NULL;
    size_t n = 1;

    *placeholder = PLACEHOLDER_COUNT;
    if (close) {
        *text = (struct bytes){at + 1, (size_t)(close - at - 1)};
        *placeholder = placeholder_named(text->p, text->n);
        return close + 1;
    }
    n += strcspn(at + 1, "{");
    *text = (struct bytes){at, n};
    return at + n;
}

gr_rc signature_template(const char *text, const char **why)
{
    bool proof = false;
    size_t pieces = 0;

    while (*text) {
        struct bytes piece;
        bool is_placeholder = *text == '{' && strchr(text, '}');
        enum placeholder h;

        text = step(text, &h, &piece);
        if (is_placeholder && h == PLACEHOLDER_COUNT) {
            *why = "has an unknown name between { and }; known are body ts id "
                   "url method sorted_form crc32 webhook_id token";
            return GR_REFUSE;
        }
        /* A signature over none of these proves nothing about the request. */
        proof |= h == PLACEHOLDER_BODY || h == PLACEHOLDER_SORTED_FORM ||
                 h == PLACEHOLDER_CRC32 || h == PLACEHOLDER_TOKEN;
        pieces++;
    }
    *why = "has too many parts";
    if (pieces > CONTENT_PARTS_MAX)
        return GR_REFUSE;
    *why = "needs {body}, {sorted_form}, {crc32} or {token}: without them the "
           "signature proves nothing";
    return proof ? GR_OK : GR_REFUSE;
}

bool signature_signs(const char *text, const char *word)
{
    enum placeholder h, wanted = placeholder_named(word, strlen(word));
    struct bytes piece;

    while (text && *text) {
        text = step(text, &h, &piece);
        if (h == wanted)
            return true;
    }
    return false;
}

/* CRC-32 as in zlib, eight bytes at a time; table[k] is the value of a byte followed by k
 * zero bytes. */
enum { CRC_BYTES = 8 };

static void make_tables(uint32_t table[CRC_BYTES][256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        table[0][i] = c;
    }
    for (int k = 1; k < CRC_BYTES; k++)
        for (uint32_t i = 0; i < 256; i++)
            table[k][i] = table[0][table[k - 1][i] & 0xff] ^
                          table[k - 1][i] >> 8;
}

/* PayPal signs the CRC as a decimal number. */
static uint32_t crc32_of(struct bytes b)
{
    static uint32_t table[CRC_BYTES][256];
    const uint8_t *p = b.p;
    uint32_t crc = 0xffffffff;
    size_t i = 0;

    if (!table[0][1])
        make_tables(table);
    for (; i + CRC_BYTES <= b.n; i += CRC_BYTES) {
        uint8_t first[4] = {p[i] ^ (crc & 0xff), p[i + 1] ^ (crc >> 8 & 0xff),
                            p[i + 2] ^ (crc >> 16 & 0xff),
                            p[i + 3] ^ crc >> 24};

        crc = table[7][first[0]] ^ table[6][first[1]] ^ table[5][first[2]] ^
              table[4][first[3]] ^ table[3][p[i + 4]] ^ table[2][p[i + 5]] ^
              table[1][p[i + 6]] ^ table[0][p[i + 7]];
    }
    for (; i < b.n; i++)
        crc = table[0][(crc ^ p[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static gr_rc fill(struct content *c, enum placeholder placeholder,
                  const struct signing *s, struct bytes *piece)
{
    switch (placeholder) {
    case PLACEHOLDER_BODY:
        *piece = s->body;
        break;
    case PLACEHOLDER_TS:
        *piece = s->ts;
        break;
    case PLACEHOLDER_ID:
        *piece = s->id;
        break;
    case PLACEHOLDER_URL:
        *piece = s->url;
        break;
    case PLACEHOLDER_METHOD:
        *piece = s->method;
        break;
    case PLACEHOLDER_WEBHOOK_ID:
        *piece = s->webhook_id;
        break;
    case PLACEHOLDER_TOKEN:
        *piece = s->token;
        break;
    case PLACEHOLDER_CRC32:
        snprintf(c->crc32, sizeof c->crc32, "%u", crc32_of(s->body));
        *piece = (struct bytes){c->crc32, strlen(c->crc32)};
        break;
    case PLACEHOLDER_SORTED_FORM:
        if (!s->no_form && form_sorted(s->body, &c->form) != GR_OK)
            return GR_REFUSE;
        *piece = (struct bytes){c->form.data, c->form.len};
        break;
    case PLACEHOLDER_COUNT: /* a text */
        break;
    }
    return GR_OK;
}

gr_rc content_make(struct content *c, const char *text, const struct signing *s)
{
    c->count = 0;
    c->digested = false;
    buf_init(&c->form, s->body.n + 1);
    buf_init(&c->joined, SIZE_MAX / 2);
    while (*text) {
        struct bytes piece;
        enum placeholder placeholder;

        text = step(text, &placeholder, &piece);
        if (c->count == CONTENT_PARTS_MAX ||
            fill(c, placeholder, s, &piece) != GR_OK)
            return GR_REFUSE;
        if (piece.n)
            c->parts[c->count++] = piece;
    }
    return GR_OK;
}

void content_fini(struct content *c)
{
    buf_fini(&c->form);
    buf_fini(&c->joined);
}
