/* ulid: makes, parses and prints ids. */
#include "ulid.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

enum {
    TIME_LETTERS = 10,   /* 50 bits, of which 48 are used */
    RANDOM_LETTERS = 16, /* 80 bits */
};

static void make_random(struct ulid *u)
{
    ssize_t n;

    do
        n = getrandom(u->random, sizeof u->random, 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof u->random)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    u->random[0] &= 0x7f; /* a random start that leaves room to count up */
}

/* Adds one to the random part; false: it has overflowed. */
static bool count_up(struct ulid *u)
{
    for (int i = (int)sizeof u->random - 1; i >= 0; i--)
        if (++u->random[i])
            return true;
    return false;
}

static void print(const struct ulid *u, char *out)
{
    uint64_t ms = u->ms;
    unsigned bits = 0, held = 0;

    for (int i = TIME_LETTERS - 1; i >= 0; i--, ms >>= 5)
        out[i] = letters[ms & 31];
    out += TIME_LETTERS;
    for (size_t i = 0; i < sizeof u->random; i++) {
        bits = (bits << 8 | u->random[i]) & 0xfff;
        for (held += 8; held >= 5; held -= 5)
            *out++ = letters[bits >> (held - 5) & 31];
    }
    *out = 0;
}

void ulid_next(struct ulid *u, int64_t now_ms, char out[ULID_BYTES + 1])
{
    uint64_t ms = now_ms < 0 ? 0 : (uint64_t)now_ms & ((1ULL << 48) - 1);

    if (ms > u->ms) {
        u->ms = ms;
        make_random(u);
    } else if (!count_up(u)) {
        u->ms++;
        make_random(u);
    }
    print(u, out);
}

static int value_of(char c)
{
    const char *at = c ? strchr(letters, c) : NULL;

    return at ? (int)(at - letters) : -1;
}

bool ulid_valid(const char *text)
{
    for (int i = 0; i < ULID_BYTES; i++)
        if (value_of(text[i]) < 0)
            return false;
    return text[ULID_BYTES] == 0 && value_of(text[0]) < 8;
}

gr_rc ulid_resume(struct ulid *u, const char *text)
{
    unsigned bits = 0, held = 0;
    uint8_t *out = u->random;

    if (!ulid_valid(text))
        return GR_REFUSE;
    u->ms = 0;
    for (int i = 0; i < TIME_LETTERS; i++)
        u->ms = u->ms << 5 | (unsigned)value_of(text[i]);
    for (int i = TIME_LETTERS; i < ULID_BYTES; i++) {
        bits = (bits << 5 | (unsigned)value_of(text[i])) & 0xfff;
        held += 5;
        if (held >= 8) {
            held -= 8;
            *out++ = (uint8_t)(bits >> held);
        }
    }
    return GR_OK;
}

bool ulid_is_of_event(const char *text)
{
    return strncmp(text, "evt_", strlen("evt_")) == 0 &&
           strlen(text) == strlen("evt_") + ULID_BYTES;
}
