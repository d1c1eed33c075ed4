/* form: application/x-www-form-urlencoded bodies and queries. Pure. Lenient, because
 * senders are not strict: a % that is not followed by two hexadecimal digits means itself. */
#ifndef EXPR_FORM_H
#define EXPR_FORM_H

#include "alloc.h"
#include "rc.h"

enum {
    FORM_FIELDS_MAX = 1000
}; /* the largest number of fields for form_sorted() */

/* Appends the first value of `name`, decoded, to `out`. Returns how many fields have this
 * name. */
int form_get(struct bytes form, const char *name, struct buf *out);

/* Calls `each` with each field in order: name and value decoded, and the value as it was
 * sent. */
typedef void form_field_fn(const void *arg, struct bytes name,
                           struct bytes value, struct bytes sent);
void form_each(struct bytes form, form_field_fn *fn, const void *arg);
/* Appends the form as it was sent, but with `instead` for the values of fields that `hides`
 * selects (empty values stay). `hides` gets name and value decoded. */
typedef bool form_hides_fn(const void *arg, struct bytes name,
                           struct bytes value);
void form_hide(struct bytes form, form_hides_fn *hides, const void *arg,
               const char *instead, struct buf *out);

/* Appends each field's name and value, decoded, without a separator, in the order of names,
 * then of values; a repeated pair only once. GR_REFUSE: too many fields, or `out` is too
 * small. */
GR_MUST_CHECK gr_rc form_sorted(struct bytes form, struct buf *out);

/* Whether a body of this content type can be read as a form. Without a content type it may
 * be one. */
bool form_is(struct bytes headers);

#endif
