/* fuzz_receiver: the C library for receivers with hostile requests. The first byte chooses one of two
 * trials:
 *
 *   0  the input is the whole request: without the secret it is never accepted
 *   1  the input is headers and a body that somebody with the secret has signed: it is accepted only
 *      if no part of it can be read in two ways, and then with the values that were signed */
#include "../../receivers/c/grapnel_receiver.h"
#include "fuzz.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { HEADERS_MAX = 80, NOW_S = 1700000000 };

static int64_t the_time(void *arg)
{
    (void)arg;
    return NOW_S;
}

static struct grapnel_receiver *receiver(void)
{
    static struct grapnel_receiver *r;

    if (!r) {
        r = grapnel_receiver_new(NULL,
                                 "whsec_AAAA "
                                 "whpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                                 "AAAAAA=",
                                 NULL);
        fuzz_check(r);
        grapnel_receiver_set_clock(r, the_time, NULL);
    }
    return r;
}

static void sign(const char *content, size_t n, char out[64])
{
    unsigned char mac[32], text[45];

    HMAC(EVP_sha256(), "\0\0\0", 3, (const unsigned char *)content, n, mac,
         NULL);
    EVP_EncodeBlock(text, mac, 32);
    snprintf(out, 64, "v1,%s", text);
}

static struct grapnel_header *put(struct grapnel_header *h, const char *name,
                                  const char *value)
{
    *h = (struct grapnel_header){name, strlen(name), value, strlen(value)};
    return h + 1;
}

/* Headers until an empty name: each a name and a value. */
static size_t read_headers(struct fuzz_input *in, struct grapnel_header *h)
{
    size_t n = 0;

    while (in->n && n < HEADERS_MAX - 8) {
        struct bytes name = fuzz_part(in), value = fuzz_part(in);

        if (!name.n)
            break;
        h[n++] = (struct grapnel_header){name.p, name.n, value.p, value.n};
    }
    return n;
}

/* The signed texts of a signer that does not check names and values. */
static void sign_all(const struct grapnel_header *h, size_t count,
                     const struct bytes *body, char standard[64], char ours[64])
{
    unsigned char digest[32];
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_printf(&text, "evt_1.%d.", NOW_S);
    buf_put(&text, body->p, body->n);
    sign(text.data, text.len, standard);
    buf_reset(&text);
    EVP_Digest(body->p, body->n, digest, NULL, EVP_sha256(), NULL);
    buf_printf(&text,
               "grapnel-signature v1\nwebhook-id evt_1\nwebhook-timestamp "
               "%d\nbody-sha256 ",
               NOW_S);
    for (int i = 0; i < 32; i++)
        buf_printf(&text, "%02x", digest[i]);
    buf_puts(&text, "\n");
    for (size_t i = 0; i < count; i++) {
        buf_put(&text, h[i].name, h[i].name_bytes);
        buf_puts(&text, " ");
        buf_put(&text, h[i].value, h[i].value_bytes);
        buf_puts(&text, "\n");
    }
    sign(text.data, text.len, ours);
    buf_fini(&text);
}

static void check_event(const struct grapnel_event *e, size_t count)
{
    fuzz_check(strcmp(e->id, "evt_1") == 0);
    fuzz_check(e->header_count <= count);
    fuzz_check(e->sequence >= 0 && e->previous >= 0 && e->attempt >= 0);
    fuzz_check(!e->numbered || e->series[0]);
    for (size_t i = 0; i < e->header_count; i++) {
        const struct grapnel_header *h = &e->headers[i];

        fuzz_check(strlen(h->name) == h->name_bytes);
        fuzz_check(strlen(h->value) == h->value_bytes);
        fuzz_check(!strpbrk(h->name, " \n") && !strpbrk(h->value, "\r\n"));
        fuzz_check(i == 0 || strcmp(e->headers[i - 1].name, h->name) < 0);
    }
    grapnel_event_clock(e, "issue.created");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    bool with_secret = fuzz_byte(&in) & 1;
    struct grapnel_header headers[HEADERS_MAX], *end;
    size_t count = read_headers(&in, headers);
    struct bytes body = fuzz_rest(&in);
    char standard[64], ours[64], now[24];
    struct grapnel_error error;
    struct grapnel_event *e;
    enum grapnel_status status;

    end = headers + count;
    if (with_secret) {
        sign_all(headers, count, &body, standard, ours);
        snprintf(now, sizeof now, "%d", NOW_S);
        end = put(end, "webhook-id", "evt_1");
        end = put(end, "webhook-timestamp", now);
        end = put(end, "webhook-signature", standard);
        end = put(end, "grapnel-signature", ours);
    }
    status = grapnel_verify(receiver(), headers, (size_t)(end - headers),
                            body.p, body.n, &e, &error);
    fuzz_check(status == GRAPNEL_DONE || status == GRAPNEL_REFUSED);
    fuzz_check(with_secret || status == GRAPNEL_REFUSED);
    if (status == GRAPNEL_DONE)
        check_event(e, count);
    grapnel_event_free(e);
    free((char *)body.p);
    return 0;
}
