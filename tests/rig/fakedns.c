/* fakedns: LD_PRELOAD it, and names ending in .rig resolve to what the file
 * $RIG_DNS says now, one `name address` a line. For DNS rebinding: what a name
 * means may change between two looks at it. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int resolver(const char *name, const char *service,
                     const struct addrinfo *hints, struct addrinfo **out);

resolver getaddrinfo;

static resolver *real(void)
{
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    resolver *f;

    memcpy(&f, &found, sizeof f);
    return f;
}

static int is_ours(const char *name)
{
    size_t n = name ? strlen(name) : 0;

    return n > 4 && !strcmp(name + n - 4, ".rig");
}

/* Appends what the address resolves to; the lists are one in the end. */
static void add(const char *address, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo *more = NULL, **end = out;

    if (real()(address, service, hints, &more) != 0)
        return;
    while (*end)
        end = &(*end)->ai_next;
    *end = more;
}

int getaddrinfo(const char *name, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    const char *path = getenv("RIG_DNS");
    char known[100], address[100];
    FILE *f;

    if (!is_ours(name) || !path)
        return real()(name, service, hints, out);
    *out = NULL;
    f = fopen(path, "r");
    while (f && fscanf(f, "%99s %99s", known, address) == 2)
        if (!strcmp(known, name))
            add(address, service, hints, out);
    if (f)
        fclose(f);
    return *out ? 0 : EAI_NONAME;
}
