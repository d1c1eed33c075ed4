/* openapi: the description of the HTTP API (OpenAPI 3.1), made from the declarations of commands.
 * For the console, which serves it, and for tests. */
#ifndef COMMANDS_OPENAPI_H
#define COMMANDS_OPENAPI_H

#include "command_spec.h"

/* The document; the caller's. */
json_t *openapi_document(void);
/* The JSON Schema of one value; the caller's. `request`: as a client sends it, so a time is a
 * duration or an RFC 3339 text. */
json_t *openapi_schema(const struct value *v, bool request);
/* Writes the document as a page for people: HTML without scripts. */
void openapi_page(struct buf *out);

#endif
