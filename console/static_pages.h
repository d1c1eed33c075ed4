/* static_pages: serves the files of the console's pages (console/pages/), which are embedded in the
 * program, or from a folder while somebody changes them.
 *
 * The files have no data and need no token. Their path has a digest of all of them, so a browser keeps
 * them until they change; the document itself is asked for again each time. */
#ifndef CONSOLE_STATIC_PAGES_H
#define CONSOLE_STATIC_PAGES_H

#include "web.h"

/* A file, as the build made it: console_pages.c in the build's folder. */
struct page_file {
    const char *name;
    const unsigned char *plain, *gzip;
    size_t plain_bytes, gzip_bytes;
};
extern const struct page_file page_files[]; /* ends with a NULL name */
extern const char page_version[];           /* the digest of all of them */

/* The document for an address such as "/events/:id": it names the modules of that page, too. */
struct page_document {
    const char *address, *name;
};
extern const struct page_document page_documents[]; /* ends with a NULL name */

/* Whether the path of a GET or HEAD is that of a page or a file; then makes the response. `folder`:
 * instead of the embedded files; or NULL. `origins`: of pages that may show the portal in a frame; nothing else may
 * be shown in one. */
bool static_pages_take(const char *folder, const struct string_list *origins,
                       struct web_request *r);

#endif
