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
/* Appends the YAML of a source with `provider: custom` that works like it. */
void profile_as_custom(const struct profile *p, struct buf *out);
/* Writes docs/PROVIDERS.md. */
void profile_document(struct buf *out);

#endif
