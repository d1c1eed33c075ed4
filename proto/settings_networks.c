/* Networks in grapnel.yaml: `10.0.0.0/8`, `fd00::/8`; an address alone is the
 * network of that one. */
#include "settings_types.h"
#include <stdlib.h>
#include <string.h>

static size_t *count_of(const struct conf_key *k, const void *target)
{
    char *at = (char *)(uintptr_t)target;

    return (size_t *)(void *)(at - k->offset + k->count_offset);
}

static void add(const struct conf_value *v, const struct conf_key *k,
                struct cidr **list)
{
    char *text = conf_scalar(v, "a network like 10.0.0.0/8");
    const char *wrong = NULL;
    size_t *n = count_of(k, list);
    struct cidr c;

    if (text)
        wrong = wrong_network(text, &c);
    if (wrong) {
        conf_error(v, "\"%.60s\" %s", text, wrong);
    } else if (text) {
        *list = gr_realloc(*list, (*n + 1) * sizeof c);
        (*list)[(*n)++] = c;
    }
    free(text);
}

static void read_networks(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    size_t n = conf_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add(&item, k, target);
    }
}

static void print_networks(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    const struct cidr *const *list = target;

    (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < *count_of(k, target); i++) {
        buf_puts(out, i ? ", " : "");
        network_print(&(*list)[i], out);
    }
    buf_puts(out, "]\n");
}

static void fini_networks(const struct conf_key *k, void *target)
{
    struct cidr **list = target;

    free(*list);
    *list = NULL;
    *count_of(k, target) = 0;
}

const struct conf_type settings_as_networks = {
    .name = "list of networks",
    .read = read_networks,
    .print = print_networks,
    .fini = fini_networks,
};

bool network_has(const struct cidr *network, const uint8_t address[16])
{
    int whole = network->prefix_bits / 8, rest = network->prefix_bits % 8;

    if (memcmp(network->address, address, (size_t)whole) != 0)
        return false;
    return !rest || !((network->address[whole] ^ address[whole]) >> (8 - rest));
}
