/* claims.c: how a store without transactions processes an event: claimed, worked on, stored. */
#include "internal.h"
#include <openssl/rand.h>

static bool make_token(char token[17])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[8];

    if (RAND_bytes(random, sizeof random) != 1)
        return false;
    for (size_t i = 0; i < sizeof random; i++) {
        token[2 * i] = digits[random[i] >> 4];
        token[2 * i + 1] = digits[random[i] & 15];
    }
    token[16] = 0;
    return true;
}

enum grapnel_status grapnel_process_claimed(struct grapnel_store *store,
                                            const struct grapnel_claims *claims,
                                            const struct grapnel_arrival *a,
                                            grapnel_handler handle, void *arg,
                                            struct grapnel_check *check,
                                            struct grapnel_error *error)
{
    const struct grapnel_transaction nothing = {NULL, NULL, NULL};
    struct grapnel_facts facts = {.has_floor = false};
    struct grapnel_state state;
    enum grapnel_status status;
    char token[17];
    bool first = false;
    int code;

    if (!make_token(token))
        return grapnel_say(error, GRAPNEL_FAILED,
                           "OpenSSL has no random numbers");
    status = claims->claim(store, a, token, &first, &facts, error);
    if (status)
        return status;
    if (a->numbered)
        grapnel_decide(a->event, first, &facts, check, &state);
    else
        grapnel_plain(first, check);
    if (first) {
        code = handle(arg, a->event, check, &nothing);
        if (code) {
            claims->release(store, a, token);
            return grapnel_say_handler(error, code);
        }
    }
    return claims->finish(store, a, a->numbered ? &state : NULL, error);
}
