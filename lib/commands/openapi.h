/* openapi: the description of the HTTP API (OpenAPI 3.1), made from the declarations of commands.
 * For the console, which serves it, and for tests. */
#ifndef COMMANDS_OPENAPI_H
#define COMMANDS_OPENAPI_H

#include "command_spec.h"

/* An error that the server may respond with. */
struct openapi_error {
    int status; /* 0 ends a table, whose statuses ascend */
    const char *code, *help;
};

/* The document; the caller's. */
json_t *openapi_document(const struct openapi_error *errors);
/* The JSON Schema of one value; the caller's. `request`: as a client sends it, so a time is a
 * duration or an RFC 3339 text. */
json_t *openapi_schema(const struct value *v, bool request);
/* Writes the document as a page for people: HTML without scripts. */
void openapi_page(struct buf *out, const struct openapi_error *errors);
/* The contents of the page's one style element, for its Content-Security-Policy. */
extern const char openapi_page_style[];

#endif
