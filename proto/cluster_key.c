/* cluster_key: reads a process's own key and refuses one that others may read or that the configuration does not
 * list. */
#include "cluster_key.h"
#include "alloc.h"
#include "sha256.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void key_from_digits(const char *digits, char out[KEY_TEXT_BYTES + 1])
{
    uint8_t key[KEY_BYTES];

    for (size_t i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(hex_digit(digits[2 * i]) << 4 |
                           hex_digit(digits[2 * i + 1]));
    zmq_z85_encode(out, key, KEY_BYTES);
}

bool key_is_listed(const struct cluster_peer *peer, const zcert_t *cert)
{
    char text[KEY_TEXT_BYTES + 1];

    for (size_t i = 0; i < peer->keys.count; i++) {
        key_from_digits(peer->keys.items[i], text);
        if (strcmp(text, zcert_public_txt((zcert_t *)(uintptr_t)cert)) == 0)
            return true;
    }
    return false;
}

static zcert_t *load(const char *path, const char *secret,
                     const struct cluster_peer *own, char **why)
{
    struct stat st;
    zcert_t *cert;

    if (access(secret, R_OK) != 0 || stat(secret, &st) != 0) {
        *why = gr_printf(
            "cluster.keys: %s: %s: make the key with `grapnel keys make %s`, "
            "or copy it to this host",
            secret, strerror(errno), own->name);
        return NULL;
    }
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        *why = gr_printf(
            "cluster.keys: other users may read %s (mode %04o): run chmod 0600 "
            "on it",
            secret, (unsigned)st.st_mode & 07777);
        return NULL;
    }
    cert = zcert_load(path);
    if (!cert) {
        *why = gr_printf(
            "cluster.keys: %s is not a key that `grapnel keys make` wrote",
            secret);
        return NULL;
    }
    if (!key_is_listed(own, cert)) {
        *why = gr_printf(
            "cluster.keys: `peers` has another key for %s than %s.cert; "
            "`grapnel keys show %s` prints that one: correct one of them",
            own->name, own->name, own->name);
        zcert_destroy(&cert);
    }
    return cert;
}

zcert_t *key_load(const char *folder, const struct cluster_peer *own,
                  char **why)
{
    char *path = gr_printf("%s/%s.cert", folder, own->name),
         *secret = gr_printf("%s_secret", path);
    zcert_t *cert = load(path, secret, own, why);

    free(path);
    free(secret);
    return cert;
}
