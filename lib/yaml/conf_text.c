/* conf_text: from a YAML scalar to the text that the user meant: variables, words that YAML
 * reads as another type, typing mistakes. */
#include "conf.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { VALUE_MAX_BYTES = 1024 * 1024, NEAR_MAX_BYTES = 40 };

/* ---- variables ---- */

/* `s` is the text after "${". Returns the text after "}", or NULL. */
static const char *put_variable(const struct conf_value *v, const char *s,
                                struct buf *out)
{
    size_t n = 0;
    char *name;
    const char *value;

    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)*s) || s[n] != '}') {
        conf_error(
            v,
            "has ${ without a variable name and }; write $$ for a dollar sign");
        return NULL;
    }
    name = gr_strndup(s, n);
    value = getenv(name);
    conf_note_variable(v, name, value != NULL);
    if (value)
        buf_puts(out, value);
    else
        conf_error(v, "the environment variable %.100s is not set", name);
    free(name);
    return value ? s + n + 1 : NULL;
}

static bool put_variables(const struct conf_value *v, const char *s,
                          struct buf *out)
{
    while (*s) {
        if (*s != '$') {
            buf_put(out, s++, 1);
        } else if (s[1] == '$') {
            buf_puts(out, "$");
            s += 2;
        } else if (s[1] == '{') {
            s = put_variable(v, s + 2, out);
            if (!s)
                return false;
        } else {
            conf_error(v, "has a single $; write $$ for a dollar sign, ${NAME} "
                          "for a variable");
            return false;
        }
    }
    return true;
}

/* ---- YAML's bites ---- */

static bool among(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(s, *words) == 0)
            return true;
    return false;
}

static bool is_null(const char *s)
{
    static const char *const words[] = {"", "~", "null", NULL};

    return among(s, words);
}

static bool is_truth(const char *s)
{
    static const char *const words[] = {"y",     "n",  "yes", "no", "true",
                                        "false", "on", "off", NULL};

    return among(s, words);
}

static bool is_number(const char *s)
{
    char digits[64];
    size_t n = 0;
    char *end;

    if (!isdigit((unsigned char)*s) && !strchr("+-.", *s))
        return false;
    if (s[0] == '0' && s[1] && strchr("oObB", s[1]) && s[2] &&
        !s[2 + strspn(s + 2, strchr("oO", s[1]) ? "01234567_" : "01_")])
        return true;
    if (strcasecmp(s + strspn(s, "+-"), ".inf") == 0 ||
        strcasecmp(s, ".nan") == 0)
        return true;
    for (; *s && n < sizeof digits - 1; s++)
        if (*s != '_')
            digits[n++] = *s;
    digits[n] = 0;
    if (!strpbrk(digits, "0123456789"))
        return false;
    strtod(digits, &end);
    return *s == 0 && *end == 0;
}

/* In YAML 1.1, 10:30 is 630 and 1:30.5 is 90.5. */
static bool is_base_60(const char *s)
{
    size_t parts = 0;

    s += strspn(s, "+-");
    if (!isdigit((unsigned char)*s))
        return false;
    s += strspn(s, "0123456789_");
    for (; *s == ':'; parts++) {
        size_t n = strspn(s + 1, "0123456789");

        if (n < 1 || n > 2 || (n == 2 && s[1] > '5'))
            return false;
        s += 1 + n;
    }
    if (*s == '.')
        s += 1 + strspn(s + 1, "0123456789_");
    return parts > 0 && *s == 0;
}

static bool is_date(const char *s)
{
    static const char form[] = "dddd-dd-dd";

    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != form[i])
            return false;
    return s[10] == 0 || strchr(" \tTt", s[10]);
}

static const struct {
    bool (*is)(const char *s);
    const char *what;
} bites[] = {
    {is_truth, "true or false"},
    {is_number, "a number"},
    {is_base_60, "a number (of base 60)"},
    {is_date, "a date"},
};

/* The type that YAML may read this unquoted text as, or NULL. */
static const char *bite(const char *s)
{
    for (size_t i = 0; i < COUNT_OF(bites); i++)
        if (bites[i].is(s))
            return bites[i].what;
    return NULL;
}

/* ---- scalars ---- */

static const char *raw_text(const struct conf_value *v)
{
    return (const char *)v->node->data.scalar.value;
}

static bool is_plain(const struct conf_value *v)
{
    return v->node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool usable(const struct conf_value *v, const char *meant)
{
    if (v->node->type != YAML_SCALAR_NODE) {
        conf_error(v, "must be %s, not %s", meant,
                   conf_is_list(v)   ? "a list"
                   : conf_is_json(v) ? "an object"
                                     : "a map");
        return false;
    }
    if (strlen(raw_text(v)) != v->node->data.scalar.length) {
        conf_error(v, "contains a zero byte");
        return false;
    }
    if (is_plain(v) && is_null(raw_text(v))) {
        conf_error(v, "has no value; it must be %s", meant);
        return false;
    }
    return true;
}

char *conf_scalar(const struct conf_value *v, const char *meant)
{
    struct buf out;
    char *text = NULL;

    if (!usable(v, meant))
        return NULL;
    if (conf_is_json(v))
        return gr_strdup(raw_text(v));
    buf_init(&out, VALUE_MAX_BYTES);
    if (put_variables(v, raw_text(v), &out)) {
        text = buf_take(&out);
        if (!text)
            conf_error(v, "is longer than 1 MiB");
    }
    buf_fini(&out);
    return text;
}

char *conf_string(const struct conf_value *v)
{
    const char *taken_for;

    if (v->node->type == YAML_SCALAR_NODE && is_plain(v)) {
        taken_for = bite(raw_text(v));
        if (taken_for && conf_is_json(v)) {
            conf_error(v, "must be a string, not %s", taken_for);
            return NULL;
        }
        if (taken_for) {
            conf_error(v,
                       "is %s in YAML, but must be a string: put it in quotes",
                       taken_for);
            return NULL;
        }
    }
    return conf_scalar(v, "a string");
}

/* ---- strings for people ---- */

static bool is_safe_plain(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '/')
        return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-./", *p))
            return false;
    return !is_null(s) && !bite(s);
}

/* The characters beyond ASCII that YAML has only as an escape, or folds as line breaks. */
static const struct {
    const char *bytes, *escape;
} escapes[] = {
    {"\xc2\x85", "\\N"},         {"\xe2\x80\xa8", "\\L"},
    {"\xe2\x80\xa9", "\\P"},     {"\xef\xbb\xbf", "\\uFEFF"},
    {"\xef\xbf\xbe", "\\uFFFE"}, {"\xef\xbf\xbf", "\\uFFFF"},
};

/* Appends the escape of the character that begins here; returns its bytes, or 0. */
static size_t put_escape(struct buf *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    for (size_t i = 0; i < COUNT_OF(escapes); i++) {
        size_t n = strlen(escapes[i].bytes);

        if (strncmp(text, escapes[i].bytes, n) == 0) {
            buf_puts(out, escapes[i].escape);
            return n;
        }
    }
    if (c[0] != 0xc2 || c[1] < 0x80 || c[1] > 0x9f)
        return 0;
    buf_printf(out, "\\x%02x", c[1]);
    return 2;
}

void conf_put_text(struct buf *out, const char *text)
{
    if (is_safe_plain(text)) {
        buf_puts(out, text);
        return;
    }
    buf_puts(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        size_t escaped = c >= 0x80 ? put_escape(out, text) : 0;

        if (escaped)
            text += escaped - 1;
        else if (c == '$')
            buf_puts(out, "$$");
        else if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < ' ' || c == 127)
            buf_printf(out, "\\x%02x", c);
        else
            buf_put(out, text, 1);
    }
    buf_puts(out, "\"");
}

/* ---- near misses ---- */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The number of typing mistakes (a letter more, less or other, or two swapped) between two
 * names. */
static size_t slips(const char *a, const char *b)
{
    size_t d[NEAR_MAX_BYTES + 1][NEAR_MAX_BYTES + 1];
    size_t n = strlen(a), m = strlen(b);

    if (n > NEAR_MAX_BYTES || m > NEAR_MAX_BYTES)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            if (d[i - 1][j] + 1 < d[i][j])
                d[i][j] = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < d[i][j])
                d[i][j] = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]) &&
                d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[n][m];
}

void conf_near_try(struct conf_near *n, const char *name)
{
    size_t distance = slips(n->text, name);
    size_t allowed = 1 + strlen(name) / 4;

    if (distance > (allowed < 3 ? allowed : 3) || distance >= strlen(name))
        return;
    if (n->best && distance >= n->distance)
        return;
    n->best = name;
    n->distance = distance;
}

const char *conf_near_hint(const struct conf_near *n, char out[100])
{
    out[0] = 0;
    if (n->best)
        snprintf(out, 100, " (did you mean %s?)", n->best);
    return out;
}
