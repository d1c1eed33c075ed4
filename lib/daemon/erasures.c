/* erasures: reads, writes and searches the file of erased workspaces. */
#include "erasures.h"
#include "alloc.h"
#include "folder.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "grapnel erasures 1 "

enum { LINE_BYTES = 128 };

struct erasure {
    char hash[ERASURE_HASH_BYTES + 1];
    int64_t at_ms;
};

struct erasures {
    char *path, *again_path, *folder;
    bool has_key;
    uint8_t key[SHA256_BYTES];
    struct erasure *all; /* by hash */
    size_t count;
    ino_t inode; /* of the file that was read; 0: there was none */
};

/* ---- read ---- */

_Noreturn static void unreadable(const struct erasures *e, const char *why)
{
    die(EXIT_STORAGE,
        "%s: %s. It lists erased workspaces: without it their data could come "
        "back. Put back the newest copy of the file",
        e->path, why);
}

static bool read_hex(const char *text, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]),
            low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return false;
        out[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static int by_hash(const void *a, const void *b)
{
    return strcmp(((const struct erasure *)a)->hash,
                  ((const struct erasure *)b)->hash);
}

static void read_line(struct erasures *e, const char *line)
{
    uint8_t digest[SHA256_BYTES];
    struct erasure one = {.at_ms = 0};
    char *end;

    one.at_ms = strtoll(line, &end, 10);
    if (end == line || *end != ' ' ||
        strlen(end + 1) != ERASURE_HASH_BYTES + 1 ||
        !read_hex(end + 1, digest, sizeof digest))
        unreadable(e, "a line is not as Grapnel writes it");
    memcpy(one.hash, end + 1, ERASURE_HASH_BYTES);
    e->all = gr_realloc(e->all, (e->count + 1) * sizeof *e->all);
    e->all[e->count++] = one;
}

static void read_file(struct erasures *e)
{
    FILE *f = fopen(e->path, "re");
    char line[LINE_BYTES + ERASURE_HASH_BYTES];
    size_t n = strlen(FIRST_LINE);
    struct stat st;

    free(e->all);
    e->all = NULL;
    e->count = 0;
    e->has_key = false;
    e->inode = 0;
    if (!f && errno == ENOENT)
        return;
    if (!f || fstat(fileno(f), &st) != 0)
        unreadable(e, strerror(errno));
    if (!fgets(line, sizeof line, f) || strncmp(line, FIRST_LINE, n) != 0 ||
        strlen(line) != n + 2 * SHA256_BYTES + 1 ||
        !read_hex(line + n, e->key, sizeof e->key))
        unreadable(e, "its first line is not as Grapnel writes it");
    while (fgets(line, sizeof line, f))
        read_line(e, line);
    fclose(f);
    e->has_key = true;
    e->inode = st.st_ino;
    if (e->count)
        qsort(e->all, e->count, sizeof *e->all, by_hash);
}

struct erasures *erasures_open(const char *state_dir)
{
    struct erasures *e = gr_alloc(sizeof *e);

    e->folder = gr_strdup(state_dir);
    e->path = gr_printf("%s/erasures", state_dir);
    e->again_path = gr_printf("%s/erase-again", state_dir);
    read_file(e);
    return e;
}

void erasures_close(struct erasures *e)
{
    if (!e)
        return;
    explicit_bzero(e->key, sizeof e->key);
    free(e->all);
    free(e->path);
    free(e->again_path);
    free(e->folder);
    free(e);
}

/* Each write makes a new file. */
void erasures_refresh(struct erasures *e)
{
    struct stat st;

    if (stat(e->path, &st) == 0 && st.st_ino != e->inode)
        read_file(e);
}

size_t erasures_count(const struct erasures *e)
{
    return e->count;
}

const char *erasures_at(const struct erasures *e, size_t i, int64_t *at_ms)
{
    *at_ms = e->all[i].at_ms;
    return e->all[i].hash;
}

bool erasures_has_hash(const struct erasures *e, const char *hash)
{
    struct erasure key;

    if (!e->count || strlen(hash) != ERASURE_HASH_BYTES)
        return false;
    memcpy(key.hash, hash, sizeof key.hash);
    return bsearch(&key, e->all, e->count, sizeof key, by_hash);
}

static void hash_of(const struct erasures *e, struct bytes name,
                    char hash[ERASURE_HASH_BYTES + 1])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (!HMAC(EVP_sha256(), e->key, sizeof e->key, name.p, name.n, digest, &n))
        die(EXIT_SOFTWARE, "HMAC-SHA256 failed");
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hash + 2 * i, 3, "%02x", digest[i]);
}

bool erasures_has(const struct erasures *e, struct bytes workspace)
{
    char hash[ERASURE_HASH_BYTES + 1];

    if (!e->count)
        return false;
    hash_of(e, workspace, hash);
    return erasures_has_hash(e, hash);
}

/* ---- write ---- */

/* A new file in place of the old one. */
static gr_rc write_file(struct erasures *e, char why[200])
{
    char *path = gr_printf("%s.new", e->path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = f;

    if (f) {
        fputs(FIRST_LINE, f);
        for (size_t i = 0; i < sizeof e->key; i++)
            fprintf(f, "%02x", e->key[i]);
        fputs("\n", f);
        for (size_t i = 0; i < e->count; i++)
            fprintf(f, "%" PRId64 " %s\n", e->all[i].at_ms, e->all[i].hash);
        good = fflush(f) == 0 && fsync(fd) == 0;
        good = fclose(f) == 0 && good;
    }
    good = good && rename(path, e->path) == 0 && sync_folder(e->folder);
    if (!good)
        snprintf(why, 200, "%.120s cannot be written: %s", e->path,
                 strerror(errno));
    free(path);
    read_file(e);
    return good ? GR_OK : GR_REFUSE;
}

gr_rc erasures_hash(struct erasures *e, const char *workspace,
                    char hash[ERASURE_HASH_BYTES + 1], char why[200])
{
    erasures_refresh(e);
    if (!e->has_key) {
        if (RAND_bytes(e->key, sizeof e->key) != 1)
            die(EXIT_SOFTWARE, "there are no random bytes");
        if (write_file(e, why) != GR_OK)
            return GR_REFUSE;
    }
    hash_of(e, (struct bytes){workspace, strlen(workspace)}, hash);
    return GR_OK;
}

gr_rc erasures_add(struct erasures *e, const char *hash, int64_t now_ms,
                   char why[200])
{
    erasures_refresh(e);
    if (erasures_has_hash(e, hash))
        return GR_OK;
    if (e->count >= ERASURES_MAX) {
        snprintf(why, 200, "%.100s has %d workspaces: no more can be erased",
                 e->path, ERASURES_MAX);
        return GR_REFUSE;
    }
    e->all = gr_realloc(e->all, (e->count + 1) * sizeof *e->all);
    e->all[e->count] = (struct erasure){.at_ms = now_ms};
    memcpy(e->all[e->count++].hash, hash, ERASURE_HASH_BYTES + 1);
    return write_file(e, why);
}

/* ---- other hosts ---- */

void erasures_key(const struct erasures *e, char digits[ERASURE_KEY_DIGITS + 1])
{
    for (size_t i = 0; i < sizeof e->key; i++)
        snprintf(digits + 2 * i, 3, "%02x", e->key[i]);
}

gr_rc erasures_add_from(struct erasures *e, const char *digits,
                        const char *hash, int64_t now_ms, char why[200])
{
    uint8_t key[SHA256_BYTES], digest[SHA256_BYTES];

    if (strlen(digits) != ERASURE_KEY_DIGITS ||
        !read_hex(digits, key, sizeof key) ||
        strlen(hash) != ERASURE_HASH_BYTES ||
        !read_hex(hash, digest, sizeof digest)) {
        snprintf(why, 200,
                 "the key or the hash of an erasure is not as "
                 "Grapnel writes it");
        return GR_REFUSE;
    }
    read_file(e); /* also when it was moved away, as the error below asks for */
    if (e->has_key && memcmp(e->key, key, sizeof key) != 0 && e->count) {
        snprintf(why, 200,
                 "%.90s lists workspaces that were erased by another "
                 "sequencer: move the file away if its databases are gone",
                 e->path);
        return GR_REFUSE;
    }
    memcpy(e->key, key, sizeof key);
    e->has_key = true;
    return erasures_add(e, hash, now_ms, why);
}

/* ---- again ---- */

void erasures_ask_again(const struct erasures *e)
{
    int fd;

    if (!e->count)
        return;
    fd = open(e->again_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fsync(fd) != 0 || !sync_folder(e->folder))
        unreadable(e, "a note for the sequencer beside it cannot be written");
    close(fd);
}

bool erasures_again(const struct erasures *e)
{
    return access(e->again_path, F_OK) == 0;
}

void erasures_again_done(const struct erasures *e)
{
    unlink(e->again_path);
}
