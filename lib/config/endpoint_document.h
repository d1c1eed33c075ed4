/* endpoint_document: the settings of one endpoint as a JSON object, for endpoints that are
 * made at run time. Pure: it reads no file and no variable of the environment.
 *
 * A document has the keys of an endpoint of grapnel.yaml, except `name` and `enabled`, by the
 * same tables: {"url": "https://example.com/hook", "types": ["issue.*"], "timeout": "20s"}.
 * A text is taken as it is: `$` has no meaning, and `file:path` is refused for a secret. The
 * caller parses the JSON, with JSON_REJECT_DUPLICATES, and owns it. */
#ifndef CONFIG_ENDPOINT_DOCUMENT_H
#define CONFIG_ENDPOINT_DOCUMENT_H

#include "endpoint_index.h"
#include "settings.h"
#include <jansson.h>

enum {
    ENDPOINT_DOCUMENT_MAX_BYTES = 256 * 1024, /* as compact JSON */
    ENDPOINT_DOCUMENT_MAX_ITEMS = 1000,       /* of each list, and of headers */
    ENDPOINT_DOCUMENT_MAX_WHERE = 32,         /* fields */
    ENDPOINT_DOCUMENT_MAX_SECRETS = 16,       /* in signing_secrets */
    ENDPOINT_DOCUMENT_MAX_PATTERN_BYTES = 256, /* of a text with * */
};

/* Reads a whole document. What it does not set comes from settings->defaults, as in the file.
 * `tenant`: it is from the token of a workspace, which may not set what could harm others
 * (docs/API.md, "Tokens of a workspace").
 *
 * The result's name is `id`, and it is enabled. It owns all that it has, except `policy`,
 * which belongs to `settings`: read the document again when other settings were loaded (the
 * policy may be gone, and defaults may have changed). NULL: it was refused. `field` gets the
 * path of the first wrong key ("headers.x-a"; "": the whole document), `why` a sentence for
 * people; both are UTF-8. */
struct endpoint_settings *
endpoint_document_read(const struct settings *settings, const char *id,
                       const json_t *doc, bool tenant, char field[128],
                       char why[300]);
/* Wipes the secrets. NULL is allowed. */
void endpoint_document_free(struct endpoint_settings *e);

/* ---- secrets: signing_secrets, the values of headers, tls.key ---- */

/* Moves the secrets out of a document: returns them as an object of the same shape, owned by
 * the caller; NULL: there are none. `doc` keeps a null in the place of each, so that it is
 * refused until they are added again. */
json_t *endpoint_document_take_secrets(json_t *doc);
/* Puts them back; the values are shared by reference. */
void endpoint_document_add_secrets(json_t *doc, const json_t *secrets);
/* Overwrites every text in `doc` with zeroes, for its owner, before it frees a document with
 * secrets. NULL is allowed. */
void endpoint_document_wipe(json_t *doc);
/* A copy for display, owned by the caller: "…" in the place of each secret (also of a null
 * that take_secrets left), and of the URL's query, which may hold a token. */
json_t *endpoint_document_masked(const json_t *doc);

/* ---- changes and parts, of a document that may not be checked yet ---- */

/* RFC 7396: keys of `patch` replace those of `doc`, objects are merged, null removes a key,
 * which then has its default again. On an empty object it removes the nulls of `patch`. Does
 * nothing if one of them is not an object. */
void endpoint_document_patch(json_t *doc, const json_t *patch);
/* The own subscription, without reading the rest, for a start with thousands of endpoints. The
 * caller frees it with own_subscription_fini(), also after false: the document is wrong. */
bool endpoint_document_subscription(const json_t *doc,
                                    struct own_subscription *out);
/* The workspace to which the endpoint belongs: `workspaces` is exactly this one, without `*`.
 * NULL: it belongs to none. It belongs to `doc`. */
const char *endpoint_document_workspace(const json_t *doc);
/* The first key of a document or patch, also as null, that the token of a workspace can neither
 * set nor remove; NULL: there is none. Static. */
const char *endpoint_document_closed(const json_t *doc);

/* The document of an endpoint of the file, without `name`, `enabled` and what equals the
 * defaults. The caller owns it. A value that YAML cannot hold (not UTF-8, a key above 1024
 * bytes) is left out. `masked` as above. */
json_t *endpoint_settings_document(const struct settings *settings,
                                   const struct endpoint_settings *e,
                                   bool masked);

#endif
