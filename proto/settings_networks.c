/* Networks in grapnel.yaml: `10.0.0.0/8`, `fd00::/8`; an address alone is the
 * network of that one. */
#include "settings_types.h"
#include <arpa/inet.h>
#include <string.h>

static bool parse_address(const char *text, struct cidr *c)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET6, text, c->address) == 1) {
        c->prefix_bits = 128;
        return true;
    }
    memcpy(c->address, mapped, sizeof mapped);
    c->prefix_bits = 32; /* until the caller maps it */
    return inet_pton(AF_INET, text, c->address + sizeof mapped) == 1;
}

static bool has_bits_behind(const struct cidr *c)
{
    for (int bit = c->prefix_bits; bit < 128; bit++)
        if (c->address[bit / 8] & (0x80 >> bit % 8))
            return true;
    return false;
}

const char *wrong_network(const char *text, struct cidr *c)
{
    const char *slash = strchr(text, '/'), *why;
    char *address = gr_strndup(text,
                               slash ? (size_t)(slash - text) : strlen(text));
    bool good = parse_address(address, c);
    int64_t bits = c->prefix_bits;

    free(address);
    if (!good)
        return "is no network like 10.0.0.0/8 or fd00::/8";
    if (slash && (conf_parse_int(slash + 1, &bits, &why) != GR_OK ||
                  bits > c->prefix_bits))
        return "has no good number of bits behind the slash";
    c->prefix_bits = (int)bits + (c->prefix_bits == 32 ? 96 : 0);
    return has_bits_behind(c) ? "has an address that is not the network's own "
                                "(10.1.2.3/8 is 10.0.0.0/8)"
                              : NULL;
}

static void add_network(const struct conf_value *v, struct endpoint_settings *e)
{
    char *text = conf_scalar(v, "true, false, or a network");
    const char *wrong;
    struct cidr c;

    if (!text)
        return;
    wrong = wrong_network(text, &c);
    if (wrong) {
        conf_error(v, "\"%.60s\" %s", text, wrong);
    } else {
        e->allow_cidrs = gr_realloc(e->allow_cidrs,
                                    (e->allow_cidr_count + 1) * sizeof c);
        e->allow_cidrs[e->allow_cidr_count++] = c;
    }
    free(text);
}

static void read_private(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    struct endpoint_settings *e = target;
    size_t n;

    (void)k;
    e->allow_private = conf_is_word(v, "true");
    if (e->allow_private || conf_is_word(v, "false"))
        return;
    n = conf_count(v);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_network(&item, e);
    }
}

void network_print(const struct cidr *c, struct buf *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool four = c->prefix_bits >= 96 &&
                memcmp(c->address, mapped, sizeof mapped) == 0;
    char text[INET6_ADDRSTRLEN];

    inet_ntop(four ? AF_INET : AF_INET6, c->address + (four ? 12 : 0), text,
              sizeof text);
    buf_printf(out, "\"%s/%d\"", text, c->prefix_bits - (four ? 96 : 0));
}

static void print_private(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct endpoint_settings *e = target;

    (void)k, (void)indent;
    if (!e->allow_cidr_count) {
        buf_puts(out, e->allow_private ? " true\n" : " false\n");
        return;
    }
    buf_puts(out, " [");
    for (size_t i = 0; i < e->allow_cidr_count; i++) {
        buf_puts(out, i ? ", " : "");
        network_print(&e->allow_cidrs[i], out);
    }
    buf_puts(out, "]\n");
}

static void fini_private(const struct conf_key *k, void *target)
{
    struct endpoint_settings *e = target;

    (void)k;
    free(e->allow_cidrs);
    e->allow_cidrs = NULL;
    e->allow_cidr_count = 0;
}

/* The same of an order's calls for what is missing. */
static void read_order_private(const struct conf_value *v,
                               const struct conf_key *k, void *target)
{
    struct order *o = target;
    struct endpoint_settings e = {0};

    read_private(v, k, &e);
    fini_private(k, &(struct endpoint_settings){.allow_cidrs = o->allow_cidrs});
    o->allow_private = e.allow_private;
    o->allow_cidrs = e.allow_cidrs;
    o->allow_cidr_count = e.allow_cidr_count;
}

static void print_order_private(struct buf *out, const struct conf_key *k,
                                const void *target, int indent)
{
    const struct order *o = target;
    const struct endpoint_settings e = {
        .allow_private = o->allow_private,
        .allow_cidrs = o->allow_cidrs,
        .allow_cidr_count = o->allow_cidr_count};

    print_private(out, k, &e, indent);
}

static void fini_order_private(const struct conf_key *k, void *target)
{
    struct order *o = target;

    (void)k;
    free(o->allow_cidrs);
    o->allow_cidrs = NULL;
    o->allow_cidr_count = 0;
}

const struct conf_type settings_as_order_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_order_private,
    .print = print_order_private,
    .fini = fini_order_private,
};

const struct conf_type settings_as_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_private,
    .print = print_private,
    .fini = fini_private,
};

static void add(const struct conf_value *v, const struct conf_key *k,
                struct cidr **list)
{
    char *text = conf_scalar(v, "a network like 10.0.0.0/8");
    const char *wrong = NULL;
    size_t *n = settings_count_at(k, list);
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
    for (size_t i = 0; i < *(const size_t *)settings_count_at(k, target); i++) {
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
    *(size_t *)settings_count_at(k, target) = 0;
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
