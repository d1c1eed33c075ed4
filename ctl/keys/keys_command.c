/* keys_command: `grapnel keys make` and `grapnel keys show`: the keys by which processes on several hosts know each other. */
#include "config.h"
#include "ctl.h"
#include "sha256.h"
#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 32, KEY_TEXT_BYTES = 40 };

/* --keys, or cluster.keys of the configuration; the caller's. */
static char *keys_folder(struct ctl *c)
{
    static const char *const keys[] = {"cluster", NULL};
    const char *given = parsed_value(&c->parsed, "--keys");

    if (given)
        return gr_strdup(given);
    need_settings(c, keys,
                  "`cluster.keys` names the folder of keys: --keys DIR names "
                  "another one");
    return gr_strdup(c->settings->cluster.keys);
}

/* The certificate's path, without the "_secret" of the other file; the caller's. NULL: the error was printed. */
static char *key_path(struct ctl *c)
{
    const char *name = c->parsed.args[0],
               *wrong = settings_wrong_peer_name(name);
    char *folder, *path;

    if (wrong) {
        complain(EXIT_USAGE, "NAME: \"%.80s\" %s", name, wrong);
        return NULL;
    }
    folder = keys_folder(c);
    path = gr_printf("%s/%s.cert", folder, name);
    free(folder);
    return path;
}

/* Prints a key that is CZMQ's text, in the digits of the configuration. GR_REFUSE: it is not such a text. */
static gr_rc print_key(struct ctl *c, const char *path, const char *text)
{
    uint8_t key[KEY_BYTES];
    struct buf digits;

    if (!text || strlen(text) != KEY_TEXT_BYTES || !zmq_z85_decode(key, text))
        return GR_REFUSE;
    buf_init(&digits, 2 * KEY_BYTES + 1);
    hex_put(key, sizeof key, &digits);
    if (c->json)
        print_json(json_pack("{s:s, s:s, s:s%}", "name", c->parsed.args[0],
                             "file", path, "public_key", digits.data,
                             digits.len));
    else
        printf("%.*s\n", (int)digits.len, digits.data);
    buf_fini(&digits);
    return GR_OK;
}

/* ---- make ---- */

static bool make_folder(const char *path)
{
    char *folder = gr_strndup(path, (size_t)(strrchr(path, '/') - path));
    bool made = mkdir(folder, 0700) == 0 || errno == EEXIST;

    if (!made)
        complain(EXIT_STORAGE, "cannot create %s: %s", folder, strerror(errno));
    free(folder);
    return made;
}

/* Creates an empty file of mode 0600 that did not exist. */
static int create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0) {
        close(fd);
        return 0;
    }
    return errno == EEXIST
               ? complain(EXIT_REFUSED,
                          "%s exists and is not overwritten: peers know the "
                          "process by it. For a new key, make it in another "
                          "folder (--keys DIR)",
                          path)
               : complain(EXIT_STORAGE, "cannot create %s: %s", path,
                          strerror(errno));
}

static int write_key(const char *path, const char *secret, zcert_t *cert)
{
    int code = create(secret);

    if (code)
        return code;
    code = create(path);
    if (!code && (zcert_save_secret(cert, secret) != 0 ||
                  zcert_save_public(cert, path) != 0)) {
        code = complain(EXIT_STORAGE, "cannot write %s and %s: %s", path,
                        secret, strerror(errno));
        unlink(path);
    }
    if (code)
        unlink(secret);
    return code;
}

int run_keys_make(struct ctl *c)
{
    char *path = key_path(c), *secret;
    zcert_t *cert;
    int code;

    if (!path)
        return EXIT_USAGE;
    secret = gr_printf("%s_secret", path);
    cert = zcert_new();
    zcert_set_meta(cert, "name", "%s", c->parsed.args[0]);
    code = make_folder(path) ? write_key(path, secret, cert) : EXIT_STORAGE;
    if (!code) {
        if (!c->json)
            complain(0, "made %s: copy it to no host but that of %s", secret,
                     c->parsed.args[0]);
        (void)!print_key(c, path, zcert_public_txt(cert));
    }
    zcert_destroy(&cert);
    free(secret);
    free(path);
    return code;
}

/* ---- show ---- */

/* Of the public file: the other one may be on another host, or readable only for another user. */
int run_keys_show(struct ctl *c)
{
    char *path = key_path(c);
    zconfig_t *file;
    int code = 0;

    if (!path)
        return EXIT_USAGE;
    file = access(path, R_OK) == 0 ? zconfig_load(path) : NULL;
    if (!file && access(path, R_OK) != 0)
        code = complain(EXIT_REFUSED, "%s: %s: `grapnel keys make %s` makes it",
                        path, strerror(errno), c->parsed.args[0]);
    else if (!file ||
             print_key(c, path, zconfig_get(file, "/curve/public-key", NULL)) !=
                 GR_OK)
        code = complain(EXIT_REFUSED,
                        "%s is not a key that `grapnel keys make` wrote", path);
    zconfig_destroy(&file);
    free(path);
    return code;
}
