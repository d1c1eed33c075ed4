/* audit_key: reads the keys of the audit chain, and makes the first one. */
#include "audit_key.h"
#include "alloc.h"
#include "audit_chain.h"
#include "folder.h"
#include "log.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 4096, MADE_BYTES = 32 };

void audit_keys_add(struct audit_keys *k, const char *text)
{
    uint8_t mac[AUDIT_HASH_BYTES];
    struct audit_key *key;
    struct buf id;

    k->all = gr_realloc(k->all, (k->count + 1) * sizeof *k->all);
    key = &k->all[k->count++];
    *key = (struct audit_key){.text = gr_strdup(text)};
    audit_mac(key, (struct bytes){"key", 3}, mac);
    buf_init(&id, AUDIT_KEY_ID_BYTES);
    hex_put(mac, AUDIT_KEY_ID_BYTES / 2, &id);
    memcpy(key->id, id.data, AUDIT_KEY_ID_BYTES);
    buf_fini(&id);
}

void audit_keys_fini(struct audit_keys *k)
{
    for (size_t i = 0; i < k->count; i++)
        free(k->all[i].text);
    free(k->all);
    *k = (struct audit_keys){0};
}

const struct audit_key *audit_key_named(const struct audit_keys *k,
                                        const char *id)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->all[i].id, id) == 0)
            return &k->all[i];
    return NULL;
}

char *audit_key_path(const char *state_dir)
{
    return gr_printf("%s/audit.key", state_dir);
}

char *audit_key_read(const char *path, char why[200])
{
    char *text = gr_alloc(FILE_MAX_BYTES + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
    ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_MAX_BYTES);

    if (fd >= 0 && n < 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        snprintf(why, 200, "%s", strerror(error));
    } else {
        text[strcspn(text, "\r\n")] = 0;
        error = 0;
        if (strlen(text) >= AUDIT_KEY_MIN_BYTES)
            return text;
        snprintf(why, 200,
                 "it has no key: a line of %d characters or more is needed",
                 AUDIT_KEY_MIN_BYTES);
    }
    free(text);
    errno = error;
    return NULL;
}

/* Written under another name and linked, so that the key of the process that was first stays. */
static bool make_file(const char *path)
{
    char *fresh = gr_printf("%s.%d", path, (int)getpid());
    uint8_t key[MADE_BYTES];
    struct buf text;
    bool good;
    int fd, error;

    if (getrandom(key, sizeof key, 0) != sizeof key)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    buf_init(&text, 2 * MADE_BYTES + 1);
    hex_put(key, sizeof key, &text);
    buf_puts(&text, "\n");
    (void)unlink(fresh); /* of a process that was killed here */
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    good = fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len &&
           fsync(fd) == 0 && (link(fresh, path) == 0 || errno == EEXIST);
    error = errno;
    if (fd >= 0)
        close(fd);
    (void)unlink(fresh);
    buf_fini(&text);
    free(fresh);
    errno = error;
    return good;
}

static void load_file(struct audit_keys *k, const char *state_dir)
{
    char *path = audit_key_path(state_dir), why[200];
    char *text = audit_key_read(path, why);

    if (!text && errno == ENOENT) {
        if (!make_file(path))
            die(EXIT_STORAGE, "cannot make %s, the key of the audit chain: %s",
                path, strerror(errno));
        if (!sync_folder(state_dir))
            die(EXIT_STORAGE, "%s: %s", state_dir, strerror(errno));
        text = audit_key_read(path, why);
        log_info(NULL, "the key of the audit chain was made", LS("file", path));
    }
    if (!text)
        die(EXIT_CONFIG,
            "%s, the key of the audit chain, cannot be used: %s: put the file "
            "back, or name another one as audit.key",
            path, why);
    audit_keys_add(k, text);
    free(text);
    free(path);
}

void audit_keys_load(struct audit_keys *k, const struct settings *s)
{
    if (s->audit.key)
        audit_keys_add(k, s->audit.key);
    else
        load_file(k, s->state_dir);
    for (size_t i = 0; i < s->audit.old_keys.count; i++)
        audit_keys_add(k, s->audit.old_keys.items[i]);
}
