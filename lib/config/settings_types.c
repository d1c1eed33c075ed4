/* settings_types: names and other short strings, rates, and what several kinds of values need. */
#include "settings_types.h"
#include "bounds.h"
#include "clock.h"
#include "conf.h"
#include "sealed.h"
#include "signature.h"
#include <stdlib.h>
#include <string.h>

enum {
    /* Its sockets are called NAME.control, and the supervisor adds a number to that of its
     * own; all paths must be shorter than the 108 bytes of sun_path. */
    RUN_DIR_MAX_BYTES = 80,
};

/* ---- what is wrong with a text ---- */

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

const char *wrong_name(const char *text)
{
    size_t n = strlen(text);

    if (n > NAME_MAX_BYTES)
        return "is too long: a name has at most 63 characters";
    if (strspn(text, NAME_LETTERS "_-") != n || *text == '-' || *text == '_')
        return "is not a name: use a-z, 0-9, _ and -, and begin with a letter "
               "or a digit";
    return NULL;
}

const char *wrong_name_glob(const char *text)
{
    if (strspn(text, NAME_LETTERS "_-*") != strlen(text))
        return "is not a name or a pattern of names with *";
    return NULL;
}

const char *wrong_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return "has a line break or another control character";
    return NULL;
}

const char *wrong_method(const char *text)
{
    if (strcmp(text, "POST") == 0 || strcmp(text, "PUT") == 0)
        return NULL;
    return "must be POST or PUT";
}

const char *wrong_run_dir(const char *path)
{
    if (strlen(path) > RUN_DIR_MAX_BYTES)
        return "is too long for the path of a socket: at most 80 bytes, with "
               "all folders above it";
    return NULL;
}

const char *wrong_secrets_key(const char *text)
{
    return sealed_key_valid(text) ? NULL
                                  : "must be base64 of exactly 32 bytes: make "
                                    "a key with `openssl rand -base64 32`";
}

const char *wrong_template(const char *text)
{
    const char *why;

    return signature_template(text, &why) == GR_OK ? NULL : why;
}

/* "open>paid": two names with one > between them. */
const char *wrong_transition(const char *text)
{
    const char *arrow = strchr(text, '>');

    if (wrong_line(text))
        return wrong_line(text);
    if (!arrow || strchr(arrow + 1, '>'))
        return "must be two states with a > between them, such as open>paid";
    return arrow == text || !arrow[1] ? "needs a state on both sides of the >"
                                      : NULL;
}

/* ---- of several kinds ---- */

void *settings_count_at(const struct conf_key *k, const void *target)
{
    return (char *)(uintptr_t)target - k->offset + k->count_offset;
}

bool settings_unset_pointer(const struct conf_key *k, const void *target)
{
    (void)k;
    return *(const void *const *)target == NULL;
}

void settings_fini_pointer(const struct conf_key *k, void *target)
{
    void **p = target;

    (void)k;
    free(*p);
    *p = NULL;
}

static void read_rate(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char *text = conf_scalar(v, "a rate such as 50/s");
    const char *why;

    (void)k;
    if (text && rate_parse(text, target, &why) != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    free(text);
}

static void print_rate(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct rate *r = target;

    (void)k, (void)indent;
    buf_printf(out, " %lld/%s\n", (long long)r->count,
               r->per_ms == SECOND_MS   ? "s"
               : r->per_ms == MINUTE_MS ? "m"
                                        : "h");
}

static bool unset_rate(const struct conf_key *k, const void *target)
{
    const struct rate *r = target;

    (void)k;
    return r->count == 0;
}

const struct conf_type conf_as_rate = {
    .name = "rate such as `50/s` (`s`, `m` or `h`)",
    .read = read_rate,
    .print = print_rate,
    .unset = unset_rate,
};
