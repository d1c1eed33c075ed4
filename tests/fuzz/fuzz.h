/* fuzz: what every libFuzzer target of this folder uses.
 *
 * A target is one file, fuzz_NAME.c, with LLVMFuzzerTestOneInput(). It stops at a
 * memory error (AddressSanitizer), undefined behaviour, a leak, or a fuzz_check()
 * that fails. Its seeds are in corpus/NAME/. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "alloc.h"
#include "rc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define fuzz_check(condition)                                         \
    do {                                                              \
        if (!(condition)) {                                           \
            fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, \
                    #condition);                                      \
            abort();                                                  \
        }                                                             \
    } while (0)

/* The input is read from its front. */
struct fuzz_input {
    const uint8_t *p;
    size_t n;
};

/* One byte, 0 when the input has ended. */
static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (!in->n)
        return 0;
    in->n--;
    return *in->p++;
}

/* The bytes up to the next 0 byte, or to the end. The 0 is skipped. Borrowed. */
static inline struct bytes fuzz_part(struct fuzz_input *in)
{
    const uint8_t *end = in->n ? memchr(in->p, 0, in->n) : NULL;
    struct bytes part = {in->p, end ? (size_t)(end - in->p) : in->n};

    in->p += part.n + (end ? 1 : 0);
    in->n -= part.n + (end ? 1 : 0);
    return part;
}

/* The same as a C string. The caller frees it. */
static inline char *fuzz_text(struct fuzz_input *in)
{
    struct bytes part = fuzz_part(in);

    return gr_strndup(part.n ? part.p : "", part.n);
}

/* What is left, in memory of exactly its size, so that AddressSanitizer sees a
 * read one byte beyond it. The caller frees it. */
static inline struct bytes fuzz_rest(struct fuzz_input *in)
{
    size_t n = in->n;
    char *copy = malloc(n ? n : 1);

    if (!copy)
        abort();
    if (n)
        memcpy(copy, in->p, n);
    in->p += n;
    in->n = 0;
    return (struct bytes){copy, n};
}

#endif
