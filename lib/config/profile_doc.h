/* profile_doc: what a profile says, for people: docs/PROVIDERS.md and `grapnel
 * check --provider`, out of the table itself. */
#ifndef CONFIG_PROFILE_DOC_H
#define CONFIG_PROFILE_DOC_H

#include "profile.h"

/* One of them, as Markdown. */
void profile_describe(const struct profile *p, struct buf *out);
/* What a source of `provider: custom` would say to be like it, as YAML. */
void profile_as_custom(const struct profile *p, struct buf *out);
/* docs/PROVIDERS.md. */
void profile_document(struct buf *out);

#endif
