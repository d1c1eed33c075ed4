/* static_pages: finds the file, and adds the headers that confine it. */
#include "static_pages.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 1024 * 1024, POLICY_MAX_BYTES = 8 * 1024 };

static const char prefix[] = "/pages/";

/* Scripts and styles only from files of ours, no HTML made from text (Trusted Types). Behind it are the origins of
 * pages that may show it in a frame. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
    "'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'; "
    "frame-ancestors";

/* The first segment of the address of each page; router.js knows the rest. */
static const char *const pages[] = {
    "",           "sign-in", "events",  "dead-letters", "endpoints",
    "workspaces", "rejects", "alerts",  "jobs",         "audit",
    "tokens",     "system",  "sources", "event-types"};
static const char portal[] = "portal";

/* The path of a hostile request may be empty, or not begin with a slash. */
static bool is_in(const char *path, const char *segment)
{
    size_t n = strlen(segment);

    return *path == '/' && strncmp(path + 1, segment, n) == 0 &&
           (!path[n + 1] || (n && path[n + 1] == '/'));
}

/* Whether a path has as many segments as the address of a page, and the same ones beside its parameters: "/events/:id" is the
 * address of "/events/evt_1". */
static bool is_at(const char *path, const char *address)
{
    while (*path == '/' && *address == '/') {
        size_t n = strcspn(++path, "/"), m = strcspn(++address, "/");

        if (*address == ':' ? n == 0 : n != m || strncmp(path, address, n) != 0)
            return false;
        path += n;
        address += m;
    }
    return !*path && !*address;
}

/* The file of the page with this path; NULL: there is none. One for all pages of the console and one for those of the portal
 * are enough, and all that a folder has; the others make a page appear sooner. */
static const char *document_of(const char *path, bool embedded)
{
    for (const struct page_document *d = page_documents; embedded && d->name;
         d++)
        if (is_at(path, d->address))
            return d->name;
    if (is_in(path, portal))
        return "portal.html";
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        if (is_in(path, pages[i]))
            return "index.html";
    return NULL;
}

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } all[] = {{".html", "text/html; charset=utf-8"},
               {".js", "text/javascript; charset=utf-8"},
               {".css", "text/css; charset=utf-8"},
               {".svg", "image/svg+xml; charset=utf-8"}};
    size_t n = strlen(name);

    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (n > strlen(all[i].end) &&
            strcmp(name + n - strlen(all[i].end), all[i].end) == 0)
            return all[i].type;
    return NULL;
}

/* ---- from a folder ---- */

/* A name has no slash and no dot at its beginning, so it is in the folder. */
static bool is_plain_name(const char *name)
{
    return *name != '.' && type_of(name) &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == 0;
}

static bool read_file(const char *folder, const char *name, struct buf *out)
{
    char *path = gr_printf("%s/%s", folder, name), piece[16 * 1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;
    size_t all = 0;

    free(path);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        while ((n = read(fd, piece, sizeof piece)) > 0 &&
               (all += (size_t)n) <= FILE_MAX_BYTES)
            buf_put(out, piece, (size_t)n);
    close(fd);
    return n == 0;
}

/* In the document of the folder "@VERSION@" stays as it is: it is the version of the folder. */
static bool take_from_folder(const char *folder, const char *name,
                             struct web_request *r)
{
    static const char preloads[] = "@PRELOADS@";
    struct buf text;
    char *at;

    if (!is_plain_name(name))
        return false;
    buf_init(&text, FILE_MAX_BYTES);
    if (!read_file(folder, name, &text)) {
        buf_fini(&text);
        return false;
    }
    at = text.len ? memmem(text.data, text.len, preloads, strlen(preloads))
                  : NULL;
    if (at)
        memset(at, ' ', strlen(preloads));
    if (text.len)
        buf_put(&r->text, text.data, text.len);
    buf_fini(&text);
    return true;
}

/* ---- from the program ---- */

static const struct page_file *find(const char *name)
{
    for (const struct page_file *f = page_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* Whether a header has this word: "gzip, deflate". One that is refused with q=0 does not occur in
 * practice. */
static bool has_word(const struct web_request *r, const char *header,
                     const char *word)
{
    const char *text = web_header(r, header, &(int){0});

    return text && strstr(text, word);
}

static bool take_embedded(const char *name, struct web_request *r)
{
    const struct page_file *f = find(name);
    bool zipped;
    char tag[64];

    if (!f)
        return false;
    /* Weak: the same for both forms. */
    snprintf(tag, sizeof tag, "W/\"%s\"", page_version);
    web_add_header(r, "ETag", tag);
    web_add_header(r, "Vary", "Accept-Encoding");
    if (has_word(r, "If-None-Match", tag)) {
        r->status = 304;
        return true;
    }
    zipped = has_word(r, "Accept-Encoding", "gzip");
    if (zipped)
        web_add_header(r, "Content-Encoding", "gzip");
    buf_put(&r->text, zipped ? f->gzip : f->plain,
            zipped ? f->gzip_bytes : f->plain_bytes);
    return true;
}

/* ---- */

/* `origins` NULL: no page may show it in a frame. */
static void confine(struct web_request *r, const struct string_list *origins)
{
    struct buf text;

    buf_init(&text, POLICY_MAX_BYTES);
    buf_puts(&text, policy);
    for (size_t i = 0; origins && i < origins->count; i++) {
        buf_puts(&text, " ");
        buf_puts(&text, origins->items[i]);
    }
    if (!origins || !origins->count) {
        buf_puts(&text, " 'none'");
        web_add_header(r, "X-Frame-Options", "DENY");
    }
    web_add_header(r, "Content-Security-Policy", text.data);
    web_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    web_add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    buf_fini(&text);
}

bool static_pages_take(const char *folder, const struct string_list *origins,
                       struct web_request *r)
{
    const char *version = folder ? "@VERSION@" : page_version,
               *document = document_of(r->path, !folder), *name = document;
    bool is_portal = is_in(r->path, portal);
    size_t n = strlen(version);

    if (document) {
        ;
    } else if (strncmp(r->path, prefix, strlen(prefix)) == 0) {
        name = r->path + strlen(prefix);
        if (strncmp(name, version, n) != 0 || name[n] != '/')
            return false;
        name += n + 1;
    } else {
        return false;
    }
    if (folder ? !take_from_folder(folder, name, r) : !take_embedded(name, r))
        return false;
    r->type = type_of(name);
    /* A browser that has the portal's document must not keep the origins of a former configuration. */
    r->cache = folder || is_portal ? "no-store"
               : document          ? "no-cache"
                                   : "public, max-age=31536000, immutable";
    confine(r, is_portal ? origins : NULL);
    return true;
}
