/* split: finds the elements of a JSON list without building a tree of it. */
#include "split.h"
#include "alloc.h"
#include "json_scan.h"
#include "json_text.h"
#include "sha256.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* "evt_" and the ten digits of a ULID that are its time. */
enum { ID_KEPT_BYTES = 14 };

/* Counts the elements of a list that is valid JSON. */
static size_t count_parts(const char *list)
{
    const char *p = json_skip_blanks(list + 1);
    size_t count = *p != ']';

    for (p = json_skip_value(p, NULL); *p == ',';
         p = json_skip_value(p + 1, NULL))
        count++;
    return count;
}

/* false: the body is not JSON. *count gets its number of elements; *list: it is a list. */
static bool look(struct bytes body, bool *list, size_t *count)
{
    struct bytes whole;
    size_t read_bytes = 0;
    bool json;
    json_t *doc;

    *count = 0;
    if (json_scan(body, "", &whole, &read_bytes) == JSON_SCAN_FOUND) {
        *list = *(const char *)whole.p == '[';
        if (*list)
            *count = count_parts(whole.p);
        return true;
    }
    doc = json_read(
        body, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    json = doc != NULL;
    *list = json_is_array(doc);
    *count = json_array_size(doc);
    json_decref(doc);
    return json;
}

gr_rc split_body(struct bytes body, struct split *s, const char **why)
{
    bool list = false;
    size_t count;
    const char *p;

    *s = (struct split){0};
    if (!look(body, &list, &count))
        *why = "the body is not JSON";
    else if (list && !count)
        *why = "the list of its events is empty";
    else if (count > PARTS_MAX_COUNT)
        *why = "it has more than 10000 events";
    else if (!list)
        return GR_OK;
    else
        s->count = count;
    if (!s->count)
        return GR_REFUSE;
    s->parts = gr_alloc(count * sizeof *s->parts);
    /* It is a list, valid JSON, of `count` elements, so no step can leave the text. */
    p = json_skip_blanks(body.p);
    for (size_t i = 0; i < s->count; i++) /* after [ or , */
        p = json_skip_value(json_skip_blanks(p + 1), &s->parts[i]);
    return GR_OK;
}

void split_fini(struct split *s)
{
    free(s->parts);
    *s = (struct split){0};
}

void split_id(char out[EVENT_ID_BYTES + 1], const char *request_id,
              size_t index)
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    uint8_t digest[SHA256_BYTES];
    char *text = gr_printf("%s %zu", request_id, index);

    sha256((struct bytes){text, strlen(text)}, digest);
    memcpy(out, request_id, ID_KEPT_BYTES);
    for (size_t i = ID_KEPT_BYTES; i < EVENT_ID_BYTES; i++)
        out[i] = digits[digest[i - ID_KEPT_BYTES] & 31];
    out[EVENT_ID_BYTES] = 0;
    free(text);
}
