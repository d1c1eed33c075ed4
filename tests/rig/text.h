/* A growing text, for what the rig reads and writes. Memory that can't be had
 * ends the program: this is a test tool. */
#ifndef RIG_TEXT_H
#define RIG_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char *at;
    size_t len;
    size_t capacity;
};

/* Space for `more` bytes behind what is there. The caller writes and moves len. */
char *text_reserve(struct text *t, size_t more);
void text_add(struct text *t, const void *bytes, size_t len);
void text_str(struct text *t, const char *s);
void text_fmt(struct text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes as a quoted JSON string; a byte above 127 becomes its Latin-1 dead letter,
 * so that the line is always JSON and nothing of a strange header is lost. */
void text_json(struct text *t, const char *bytes, size_t len);
void text_base64(struct text *t, const void *bytes, size_t len);
/* Forget the first `len` bytes. */
void text_drop(struct text *t, size_t len);
void text_fini(struct text *t);

/* Microseconds since the epoch, and since boot. */
int64_t wall_us(void);
int64_t mono_us(void);

/* As many descriptors as we may have: one for each connection. */
void raise_descriptor_limit(void);

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format,
                                                          ...);

#endif
