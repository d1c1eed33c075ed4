/* profile_doc: describes a profile for people, from the profile itself: docs/PROVIDERS.md
 * and `grapnel check --provider`. Pure. */
#ifndef CONFIG_PROFILE_DOC_H
#define CONFIG_PROFILE_DOC_H

#include "profile.h"

/* Appends the description of one provider, as Markdown. */
void profile_describe(const struct profile *p, struct buf *out);
/* How requests of this source are verified and read: calls `line` with the name and the text (Markdown) of
 * each fact that profile_describe() writes about it. */
typedef void profile_line(void *self, const char *name, const char *text);
void source_describe(const struct source *s, profile_line *line, void *self);
/* What `order: suggested` and `states: suggested` mean for sources of this profile, as one line of Markdown each; nothing
 * where it has no suggestion. */
void profile_describe_order(const struct profile *p, struct buf *out);
void profile_describe_states(const struct profile *p, struct buf *out);
/* Appends the YAML of a source with `provider: custom` that works like it. */
void profile_as_custom(const struct profile *p, struct buf *out);
/* Writes docs/PROVIDERS.md. */
void profile_document(struct buf *out);

#endif
