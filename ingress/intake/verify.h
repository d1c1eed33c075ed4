/* verify: did the one who holds the secret send this, and just now? Pure.
 *
 * Rules, whatever the provider (providers.md A.1): raw bytes of the body; header
 * names in any case; white space around a value does not count; a signature or
 * time that is missing, empty or there twice fails; bytes of fixed length are
 * compared in constant time, with every secret; the time's own text goes into
 * what is signed. The body is not parsed before its signature holds, but where
 * the scheme itself says so: Mailgun's signature is in it, Twilio's is over
 * its fields. */
#ifndef INGRESS_VERIFY_H
#define INGRESS_VERIFY_H

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

/* `headers` is packed (headers.h). `*secret` is the index of the secret that
 * fits when it holds. */
enum verification verify(const struct source *source, struct bytes headers,
                         struct bytes body, int64_t now_ms, int *secret);

#endif
