/* reject_mistakes: the mistakes that `grapnel rejects explain` can name, each with its word in
 * the reply and what it means. Ingress finds them (ingress/intake/diagnosis.h); the declaration
 * of the command lists them. */
#ifndef COMMANDS_REJECT_MISTAKES_H
#define COMMANDS_REJECT_MISTAKES_H

/* M(NAME, word, help) */
#define REJECT_MISTAKES(M)                                                     \
    M(ACCEPTED_NOW, "accepted_now",                                            \
      "the configuration of now accepts it: it was corrected since")           \
    M(OTHER_SOURCE, "other_source",                                            \
      "signed with the secret of another source, such as that of another "     \
      "environment or of test mode")                                           \
    M(SECRET_ENCODING, "secret_encoding",                                      \
      "the sender decoded the secret differently: as text, hex or base64")     \
    M(SECRET_PREFIX, "secret_prefix",                                          \
      "signed with the secret without its prefix, or with one")                \
    M(SECRET_SPACES, "secret_spaces",                                          \
      "the secret has white space or quotes around it, here or at the sender") \
    M(SECRET_PLACEHOLDER, "secret_placeholder",                                \
      "signed with a word such as `undefined` instead of a secret")            \
    M(OTHER_PROVIDER, "other_provider",                                        \
      "signed in the way of another provider")                                 \
    M(SIGNED_CONTENT, "signed_content",                                        \
      "another part of the request was signed, such as the body alone")        \
    M(PUBLIC_URL, "public_url",                                                \
      "another URL was signed: its scheme, host, port, path or query")         \
    M(BODY_SPACES, "body_spaces",                                              \
      "white space or line ends of the body were changed on the way")          \
    M(BODY_JSON, "body_json", "the JSON of the body was written anew")         \
    M(BODY_CHARSET, "body_charset",                                            \
      "the character encoding of the body was changed")                        \
    M(BODY_FORM, "body_form", "the form in the body was encoded anew")         \
    M(BODY_CHANGED, "body_changed",                                            \
      "the body does not fit a digest that the request has of it")             \
    M(BODY_MISSING, "body_missing", "it has no body")                          \
    M(SIGNATURE_ALGORITHM, "signature_algorithm",                              \
      "another hash function was used, such as SHA-1")                         \
    M(SIGNATURE_ENCODING, "signature_encoding",                                \
      "the signature is encoded differently: hex or base64")                   \
    M(SIGNATURE_PREFIX, "signature_prefix",                                    \
      "the prefix of the signature is missing or another one")                 \
    M(SIGNATURE_FORM, "signature_form",                                        \
      "the header does not have a signature of the expected form")             \
    M(HEADER_RENAMED, "header_renamed", "the signature is in another header")  \
    M(HEADER_MISSING, "header_missing",                                        \
      "the header of the signature is missing")                                \
    M(HEADER_TWICE, "header_twice",                                            \
      "the header of the signature occurs twice, or has too many signatures")  \
    M(TIME_OLD, "time_old", "signed longer ago than is permitted")             \
    M(TIME_AHEAD, "time_ahead", "signed in the future: a clock is wrong")      \
    M(TIME_UNIT, "time_unit",                                                  \
      "the time has another unit: seconds or milliseconds")                    \
    M(TIME_FORM, "time_form", "the time cannot be read")                       \
    M(TIME_MISSING, "time_missing", "the time of the signature is missing")    \
    M(ID_MISSING, "id_missing", "the id that is signed is missing")            \
    M(TEST_MODE, "test_mode",                                                  \
      "it says that it is of test mode, or of live mode: the provider signs "  \
      "these with different secrets")                                          \
    M(SOURCE_UNKNOWN, "source_unknown", "its path names no source")

enum reject_mistake {
#define M(NAME, word, help) MISTAKE_##NAME,
    REJECT_MISTAKES(M)
#undef M
};

#endif
