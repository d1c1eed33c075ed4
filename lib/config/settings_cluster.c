/* settings_cluster: the section `cluster`: the processes that speak to each other over the network, their addresses
 * and public keys. */
#include "bounds.h"
#include "config.h"
#include "settings_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_DIGITS = 64 }; /* of a public key */

static const char *wrong_public_key(const char *text)
{
    size_t n = strlen(text);

    if (n != KEY_DIGITS || strspn(text, "0123456789abcdef") != n)
        return "is not a public key: copy the 64 digits that `grapnel keys "
               "show NAME` prints";
    return NULL;
}

/* Processes of the other kinds run on the sequencer's host. A console there asks those of other hosts. */
static const char *const kinds[] = {"sequencer", "deliverer", "ingress", "dlqd",
                                    "console"};

const char *settings_wrong_peer_name(const char *text)
{
    const char *wrong = wrong_name(text);

    for (size_t i = 0; !wrong && i < COUNT_OF(kinds); i++) {
        size_t n = strlen(kinds[i]);

        if (strncmp(text, kinds[i], n) == 0 && (!text[n] || text[n] == '-'))
            return NULL;
    }
    return wrong
               ? wrong
               : "is not the name of a sequencer, a deliverer, an ingress, a "
                 "dlqd "
                 "or a console, such as deliverer-2; processes of other kinds "
                 "run on the sequencer's host";
}

static const struct conf_key peer_keys[] = {
    KEY(string, cluster_peer, name, "name", NULL,
        "the name of the process (`--name`)", .check = settings_wrong_peer_name,
        .flags = CONF_REQUIRED, .form = "name"),
    KEY(string, cluster_peer, host, "host", NULL,
        "the host of this instance, when `peers` has several with one name: "
        "one of them is active, the others are standbys",
        .check = wrong_name, .form = "name"),
    KEY(string, cluster_peer, address, "address", NULL,
        "where the others reach it. It binds this port and the next two. A "
        "process whose address has a host name binds all addresses of its "
        "host. A console binds none",
        .check = wrong_peer_address, .flags = CONF_REQUIRED,
        .form = "host:port"),
    KEY(strings, cluster_peer, keys, "key", NULL,
        "its public key, which `grapnel keys show NAME` prints. During a "
        "rotation there are two: it may use either, and change at a reload",
        .check = wrong_public_key, .flags = CONF_REQUIRED | CONF_FILLED,
        .form = "public key, or list of two"),
    {0},
};

static void check_peer(const struct conf_value *v, void *target)
{
    const struct cluster_peer *peer = target;

    if (peer->keys.count > 2)
        conf_error_key(v, "key",
                       "has %zu keys; two are enough for a rotation: remove "
                       "those that are no longer used",
                       peer->keys.count);
}

static const struct conf_section peer_section = {
    .name = "peer",
    .size = sizeof(struct cluster_peer),
    .check = check_peer,
    .keys = peer_keys,
};

static const struct conf_key cluster_keys[] = {
    KEY(path, settings, cluster.keys, "keys", "keys",
        "the folder with the secret key of each process of this host that "
        "`peers` names, which `grapnel keys make NAME` writes"),
    KEY(string, settings, cluster.host, "host", NULL,
        "the name of this host in `host` of `peers`; by default the name that "
        "the system has (`hostname`)",
        .check = wrong_name, .form = "name"),
    LIST(settings, cluster.peers, cluster.peer_count, "peers", &peer_section,
         "the processes that speak to each other over the network, the same "
         "list on each host"),
    {0},
};

const struct conf_section settings_cluster_section = {
    .name = "cluster",
    .help = "Processes on several hosts ([CLUSTER](CLUSTER.md)). Without "
            "peers, all processes are on one host. "
            "Everything between hosts is encrypted, and a key that is not in "
            "the list is refused.",
    .keys = cluster_keys,
};

void settings_host(const struct settings *s, char out[HOST_NAME_SIZE])
{
    out[0] = 0;
    if (s->cluster.host)
        snprintf(out, HOST_NAME_SIZE, "%s", s->cluster.host);
    else if (gethostname(out, HOST_NAME_SIZE - 1) != 0)
        out[0] = 0;
    out[HOST_NAME_SIZE - 1] = 0;
    if (!s->cluster.host)
        out[strcspn(out, ".")] = 0;
}

/* Each process has three ports: the inbox, the priority inbox and the control socket. */
static bool overlap(const char *a, const char *b)
{
    const char *x = strrchr(a, ':'), *y = strrchr(b, ':');
    long apart = strtol(x + 1, NULL, 10) - strtol(y + 1, NULL, 10);

    return x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0 &&
           apart >= -2 && apart <= 2;
}

static const char *shared_key(const struct cluster_peer *a,
                              const struct cluster_peer *b)
{
    for (size_t i = 0; i < a->keys.count; i++)
        if (string_list_has(&b->keys, a->keys.items[i]))
            return a->keys.items[i];
    return NULL;
}

/* Several instances of one name are told apart by their hosts. */
static void check_instances(struct conf *c, const struct cluster_peer *a,
                            const struct cluster_peer *b)
{
    if (strcmp(a->name, b->name) != 0)
        return;
    if (!a->host || !b->host)
        conf_error_at(c, a->name,
                      "there are several peers named \"%s\": give each of its "
                      "instances a `host`, or another name",
                      a->name);
    else if (strcmp(a->host, b->host) == 0)
        conf_error_at(c, a->host,
                      "there are two peers named \"%s\" on host \"%s\"",
                      a->name, a->host);
}

void settings_check_cluster(struct conf *c, const struct settings *s)
{
    const struct cluster_peer *peers = s->cluster.peers;

    for (size_t i = 1; i < s->cluster.peer_count; i++)
        for (size_t k = 0; k < i; k++) {
            if (!peers[i].name || !peers[k].name || !peers[i].address ||
                !peers[k].address)
                continue; /* reported already */
            check_instances(c, &peers[i], &peers[k]);
            if (overlap(peers[i].address, peers[k].address))
                conf_error_at(c, peers[i].address,
                              "%s uses a port of %s (%s): a process has three "
                              "ports, its own and the next two",
                              peers[i].address, peers[k].name,
                              peers[k].address);
            if (shared_key(&peers[i], &peers[k]))
                conf_error_at(c, shared_key(&peers[i], &peers[k]),
                              "%s has this key, too: each process needs its "
                              "own (`grapnel keys make %s`)",
                              peers[k].name, peers[i].name);
        }
}
