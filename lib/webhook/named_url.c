/* named_url: splits a URL or a pattern of URLs strictly, and compares the parts. */
#include "named_url.h"
#include "alloc.h"
#include "glob.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOST_LETTERS                       \
    "abcdefghijklmnopqrstuvwxyz0123456789" \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._"

enum { ANY_PORT = 0, PORT_MAX = 65535 };

struct parts {
    bool https;
    const char *host;
    size_t host_bytes;
    int port;
    const char *path; /* with the query; "": there is none */
};

static const char *wrong_letters(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127 ||
            strchr("\\\"<>^`{|}", *text))
            return "has a character that must be %-encoded in a URL";
        else if (*text == '#')
            return "has a fragment (#), which is never sent: remove it";
    return NULL;
}

/* A segment that a client or a server may resolve as `.` or `..`, or split: dots, perhaps
 * %-encoded and with parameters behind a semicolon, and encoded slashes. */
static bool is_tricky(const char *p, size_t n)
{
    size_t dots = 0, at = 0;

    for (size_t i = 0; i + 2 < n; i++)
        if (strncasecmp(p + i, "%2f", 3) == 0 ||
            strncasecmp(p + i, "%5c", 3) == 0)
            return true;
    for (; at < n && p[at] != ';'; dots++) {
        if (p[at] == '.')
            at++;
        else if (n - at >= 3 && strncasecmp(p + at, "%2e", 3) == 0)
            at += 3;
        else
            return false;
    }
    return dots == 1 || dots == 2;
}

static const char *wrong_path(const char *path)
{
    const char *end = path + strcspn(path, "?");

    while (path < end) {
        size_t n = strcspn(path, "/?");

        if (is_tricky(path, n))
            return "must not have . or .. in its path, or an encoded slash";
        path += n + 1;
    }
    return NULL;
}

static const char *wrong_host(const char *host, size_t n, bool pattern)
{
    size_t letters = strspn(host, pattern ? HOST_LETTERS "*" : HOST_LETTERS);

    if (n == 0 || letters < n || *host == '.' || host[n - 1] == '.')
        return "has no valid host: write a name or an IPv4 address";
    for (size_t i = 1; i < n; i++)
        if (host[i] == '.' && host[i - 1] == '.')
            return "has no valid host: write a name or an IPv4 address";
    return NULL;
}

/* From the colon up to the path. */
static const char *read_port(const char *text, size_t n, bool pattern,
                             int *port)
{
    size_t digits = strspn(text + 1, "0123456789");

    if (pattern && n == 2 && text[1] == '*') {
        *port = ANY_PORT;
        return NULL;
    }
    *port = digits && digits <= 5 ? (int)strtol(text + 1, NULL, 10) : 0;
    return digits + 1 == n && *port >= 1 && *port <= PORT_MAX
               ? NULL
               : "has no valid port after its host";
}

static const char *split(const char *text, bool pattern, struct parts *p)
{
    const char *wrong = wrong_letters(text), *colon;
    size_t n;

    *p = (struct parts){.https = strncmp(text, "https://", 8) == 0};
    if (wrong)
        return wrong;
    if (!p->https && strncmp(text, "http://", 7) != 0)
        return "must begin with https:// or http://";
    p->host = text + (p->https ? 8 : 7);
    n = strcspn(p->host, "/?");
    if (memchr(p->host, '@', n))
        return "must not contain a user or a password";
    p->path = p->host + n;
    colon = memchr(p->host, ':', n);
    p->host_bytes = colon ? (size_t)(colon - p->host) : n;
    p->port = p->https ? 443 : 80;
    wrong = wrong_host(p->host, p->host_bytes, pattern);
    if (!wrong && colon)
        wrong = read_port(colon, n - p->host_bytes, pattern, &p->port);
    if (!wrong && *p->path == '?')
        wrong = "must have a path before its query: write /? instead of ?";
    return wrong ? wrong : wrong_path(p->path);
}

const char *named_url_wrong(const char *url)
{
    struct parts p;

    if (strlen(url) > NAMED_URL_MAX_BYTES)
        return "is longer than 2048 bytes";
    return split(url, false, &p);
}

const char *named_url_wrong_pattern(const char *pattern)
{
    struct parts p;
    const char *wrong = split(pattern, true, &p);

    if (!wrong && !*p.path)
        wrong = "has no path: write /* for any path";
    return wrong;
}

int named_url_port(const char *url)
{
    struct parts p;

    return split(url, false, &p) ? 0 : p.port;
}

static char *lower(const char *text, size_t n)
{
    char *copy = gr_strndup(text, n);

    for (char *c = copy; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return copy;
}

bool named_url_matches(const char *pattern, const char *url)
{
    struct parts p, u;
    char *host, *pattern_host;
    bool same;

    if (split(pattern, true, &p) || split(url, false, &u) ||
        p.https != u.https || (p.port != ANY_PORT && p.port != u.port) ||
        !glob_match(p.path, *u.path ? u.path : "/"))
        return false;
    pattern_host = lower(p.host, p.host_bytes);
    host = lower(u.host, u.host_bytes);
    same = glob_match(pattern_host, host);
    free(pattern_host);
    free(host);
    return same;
}
