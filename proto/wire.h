/* wire: schema.h as C. For each frame, message and record NAME:
 *
 *   struct wire_NAME                            its fields
 *   void wire_put_NAME(buf, const struct *)     encode (buf->failed: too large)
 *   gr_rc wire_get_NAME(struct *, bytes)        strict and total decode
 *
 * Encoding is msgpack-c's. Decoding is our own pull reader, because msgpack-c's
 * unpacker allocates by claimed counts (docs/decisions/0003): known kind, known
 * version, exact field count, no trailing bytes, lengths compared with what is
 * left before any arithmetic. What it yields borrows from the frame. */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include "alloc.h"
#include "rc.h"
#include "schema.h"

enum wire_kind {
#define M(number, NAME, name, version) WIRE_KIND_##NAME = number,
    WIRE_FRAMES(M) WIRE_MESSAGES(M) WIRE_RECORDS(M)
#undef M
};

/* New kinds get numbers up to this one: a larger number is not a frame. */
enum { WIRE_KIND_MAX = 127 };

/* A string field is NUL-safe: `p` need not end with 0. */
typedef uint64_t wire_u64;
typedef int64_t wire_i64;
typedef struct bytes wire_str;
typedef struct bytes wire_bin;

#define F(type, name, note) wire_##type name;
#define M(number, NAME, name, version)                                  \
    struct wire_##name {                                                \
        WIRE_##NAME(F)                                                  \
    };                                                                  \
    void wire_put_##name(struct buf *out, const struct wire_##name *v); \
    GR_MUST_CHECK gr_rc wire_get_##name(struct wire_##name *v, struct bytes in);
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M
#undef F

/* A task as it was stored: of this version, or of version 1, which ends before `retry`. */
GR_MUST_CHECK gr_rc wire_get_stored_task(struct wire_task *v, struct bytes in);

/* The kind of a frame or message; 0: its kind is unknown here. */
int wire_kind(struct bytes in);
const char *wire_kind_name(int kind);

/* What a frame or message of any version begins with. */
struct wire_head {
    int kind;
    uint64_t version; /* 1 or more */
    wire_str
        from; /* its first field, when that is a string; of a frame: its sender */
};
/* Whether another version of Grapnel wrote it: its kind is unknown here, or this version
 * of the kind is. false: it is of this version, or it is not a frame. */
bool wire_is_unknown_version(struct wire_head *out, struct bytes in);
/* What each frame begins with, of any kind and version. false: it does not. */
bool wire_sender(struct bytes frame, struct bytes *from, struct bytes *inbox);
/* The version of this kind that this program knows; 0: it does not know the kind. */
uint64_t wire_known_version(int kind);

/* Small helpers for fields. */
struct bytes wire_text(const char *s); /* NULL is "" */
bool wire_is(struct bytes s, const char *text);
/* Copy into a fixed array, cut if need be, always ended with 0. */
void wire_copy(char *out, size_t out_bytes, struct bytes s);
char *wire_dup(struct bytes s); /* caller frees */

/* docs/WIRE.md */
void wire_document(struct buf *out);

#endif
