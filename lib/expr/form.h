/* form: application/x-www-form-urlencoded bodies and queries. Pure. Lenient, as senders are:
 * a % that is not followed by two hexadecimal digits is itself. */
#ifndef EXPR_FORM_H
#define EXPR_FORM_H

#include "alloc.h"
#include "rc.h"

enum { FORM_FIELDS_MAX = 1000 }; /* that form_sorted() takes */

/* Append the first value of `name`, decoded, to `out`. Returns how many fields
 * have this name. */
int form_get(struct bytes form, const char *name, struct buf *out);

/* Each field in order: name and value decoded, and the value as it was sent. */
typedef void form_field_fn(const void *arg, struct bytes name,
                           struct bytes value, struct bytes sent);
void form_each(struct bytes form, form_field_fn *fn, const void *arg);
/* As it was sent, but with `instead` for the values (empty ones stay) of fields that
 * `hides` says yes to; name and value are decoded. Appended to `out`. */
typedef bool form_hides_fn(const void *arg, struct bytes name,
                           struct bytes value);
void form_hide(struct bytes form, form_hides_fn *hides, const void *arg,
               const char *instead, struct buf *out);

/* Each field's name and value, decoded, without a separator, in the order of
 * names, then of values; a pair that came twice, once. GR_REFUSE: too many
 * fields, or `out` is too small. */
GR_MUST_CHECK gr_rc form_sorted(struct bytes form, struct buf *out);

/* A body of this content type can be read as a form. Without a type it may be
 * one. */
bool form_is(struct bytes headers);

#endif
