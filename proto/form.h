/* form: application/x-www-form-urlencoded, as bodies and queries have it. Pure.
 * Lenient where senders are: a % without two hex digits stands for itself. */
#ifndef PROTO_FORM_H
#define PROTO_FORM_H

#include "alloc.h"
#include "rc.h"

enum { FORM_FIELDS_MAX = 1000 }; /* that form_sorted() takes */

/* Append the first value of `name`, decoded, to `out`. Returns how many fields
 * have this name. */
int form_get(struct bytes form, const char *name, struct buf *out);

/* Each field's name and value, decoded, without a separator, in the order of
 * names, then of values; a pair that came twice, once. GR_REFUSE: too many
 * fields, or `out` is too small. */
GR_MUST_CHECK gr_rc form_sorted(struct bytes form, struct buf *out);

/* A body of this content type can be read as a form. Without a type it may be
 * one. */
bool form_is(struct bytes headers);

#endif
