/* verify: checks that the holder of the secret sent a request, and recently. Pure.
 *
 * Rules for all providers: the signature covers the raw bytes of the body; header names are
 * matched in any case; white space around a value does not count; a signature or time that is
 * missing, empty or sent twice fails; bytes of fixed length are compared in constant time, with
 * every secret; the signed content has the time as it was sent. The body is not parsed before
 * its signature is verified, unless the scheme requires it: Mailgun's signature is in the body,
 * Twilio's covers its fields. */
#ifndef INTAKE_VERIFY_H
#define INTAKE_VERIFY_H

#include "settings.h"

#define VERDICTS(V)                               \
    V(HOLDS, "holds")                             \
    V(SIGNATURE_MISSING, "signature_missing")     \
    V(SIGNATURE_MALFORMED, "signature_malformed") \
    V(SIGNATURE_MISMATCH, "signature_mismatch")   \
    V(TIMESTAMP_MISSING, "timestamp_missing")     \
    V(TIMESTAMP_MALFORMED, "timestamp_malformed") \
    V(TIMESTAMP_STALE, "timestamp_stale")         \
    V(ID_MISSING, "id_missing")                   \
    V(ID_MALFORMED, "id_malformed")               \
    V(BODY_MISSING, "body_missing")

enum verification {
#define V(NAME, text) VERDICT_##NAME,
    VERDICTS(V)
#undef V
};

const char *verdict_name(enum verification v);

/* `headers` is packed (headers.h). If the verdict is HOLDS, `*secret` is the index of the
 * secret that verified it. */
enum verification verify(const struct source *source, struct bytes headers,
                         struct bytes body, int64_t now_ms, int *secret);

#endif
