/* relay_uri: reads the URI of a MariaDB or MySQL database of a relay. */
#include "relay_uri.h"
#include "alloc.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char example[] = "is not the URI of a database: write "
                              "mysql://user@host/database";

static int hex(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* `n` bytes with %XX decoded; NULL: they cannot be. */
static char *decoded(const char *p, size_t n)
{
    char *text = gr_alloc(n + 1);
    size_t at = 0;

    for (size_t i = 0; i < n; i++, at++) {
        text[at] = p[i];
        if (p[i] != '%')
            continue;
        if (n - i < 3 || hex(p[i + 1]) < 0 || hex(p[i + 2]) < 0 ||
            !(text[at] = (char)(hex(p[i + 1]) << 4 | hex(p[i + 2])))) {
            free(text);
            return NULL;
        }
        i += 2;
    }
    return text;
}

/* HOST, HOST:PORT or [ADDRESS]:PORT */
static const char *parse_host(struct relay_uri *u, const char *p, size_t n)
{
    const char *close = n && *p == '[' ? memchr(p, ']', n) : NULL;
    const char *from = close ? close + 1 : p;
    const char *colon = memchr(from, ':', n - (size_t)(from - p));
    size_t host_n = colon ? (size_t)(colon - p) : n;
    char *end;

    if (n && *p == '[' && (!close || host_n != (size_t)(close + 1 - p)))
        return example;
    if (colon) {
        unsigned long port = strtoul(colon + 1, &end, 10);

        if (end != p + n || !isdigit((unsigned char)colon[1]) || !port ||
            port > 65535)
            return "has a port that is not a number from 1 to 65535";
        u->port = (unsigned)port;
    }
    if (host_n)
        u->host = close ? gr_strndup(p + 1, host_n - 2) : gr_strndup(p, host_n);
    return NULL;
}

static const char *parse_options(struct relay_uri *u, const char *p)
{
    while (*p) {
        size_t n = strcspn(p, "&");
        char **value = strncmp(p, "socket=", 7) == 0   ? &u->socket
                       : strncmp(p, "ssl_ca=", 7) == 0 ? &u->ssl_ca
                                                       : NULL;

        if (!value || *value)
            return "has an option that is not known: only `socket` and "
                   "`ssl_ca` are, each once";
        *value = decoded(p + 7, n - 7);
        if (!*value || **value != '/')
            return "has an option that is not an absolute path";
        p += n + (p[n] == '&');
    }
    return NULL;
}

const char *relay_uri_parse(struct relay_uri *u, const char *text)
{
    const char *rest = strstr(text, "://"), *at, *slash, *wrong;
    size_t n;

    *u = (struct relay_uri){0};
    if (!rest || strchr(text, '#'))
        return example;
    rest += 3;
    n = strcspn(rest, "/?");
    at = memchr(rest, '@', n);
    if (at && !(u->user = decoded(rest, (size_t)(at - rest))))
        return example;
    slash = rest + n;
    rest = at ? at + 1 : rest;
    wrong = parse_host(u, rest, (size_t)(slash - rest));
    if (wrong)
        return wrong;
    if (*slash != '/')
        return "names no database: write mysql://user@host/database";
    n = strcspn(slash + 1, "?");
    u->database = decoded(slash + 1, n);
    if (!u->database || !*u->database || strchr(u->database, '/'))
        return "names no database: write mysql://user@host/database";
    rest = slash + 1 + n;
    return parse_options(u, *rest == '?' ? rest + 1 : rest);
}

void relay_uri_fini(struct relay_uri *u)
{
    free(u->user);
    free(u->host);
    free(u->database);
    free(u->socket);
    free(u->ssl_ca);
}
