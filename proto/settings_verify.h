/* settings_verify: how the file says by what a source's requests prove who sent
 * them. Profiles are written in the same words (profiles.yaml). */
#ifndef PROTO_SETTINGS_VERIFY_H
#define PROTO_SETTINGS_VERIFY_H

#include "settings.h"

extern const struct conf_section settings_verify;
extern const struct conf_type settings_as_verify; /* struct verify, by it */

/* Nothing is said of where a signature is. */
bool verify_unset(const struct verify *v);
/* The request says when it was signed, and how old that may be is bounded. */
bool verify_judges_time(const struct verify *v);
/* And whoever does not have the secret can't change that time. */
bool verify_signs_time(const struct verify *v);
void settings_verify_forget(struct verify *v);
void verify_copy(struct verify *to, const struct verify *from);

/* With the profile filled in: do the secrets fit the scheme, and is all there
 * that it needs? Makes source->keys. */
void settings_check_verify(const struct conf_value *v, struct source *s);
void settings_forget_keys(struct source *s);

#endif
