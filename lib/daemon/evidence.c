/* evidence: builds the document about an event, and signs it. */
#include "evidence.h"
#include "acts.h"
#include "encoding.h"
#include "folder.h"
#include "json_text.h"
#include "operational.h"
#include "sent_headers.h"
#include "sha256.h"
#include "timeline.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VERSION = 1,
    SIGNATURE_BYTES = 64,
    PUBLIC_BYTES = 32,
    KEY_ID_DIGITS = 16,
    PEM_MAX_BYTES = 4096,
    MISSING_MAX = 64,
};

/* ---- files ---- */

/* A file that root makes belongs to the owner of its folder, so that processes can read it. */
static bool give_away(int fd, const char *folder)
{
    struct stat st;

    return geteuid() != 0 ||
           (stat(folder, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) == 0);
}

static bool write_all(int fd, struct bytes text)
{
    for (size_t at = 0; at < text.n;) {
        ssize_t n = write(fd, (const char *)text.p + at, text.n - at);

        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd) == 0;
}

/* Written under another name and linked: a crash or a full disk leaves no half of it. */
gr_rc evidence_file_make(const char *path, struct bytes text, char why[200])
{
    char *fresh = gr_printf("%s.%d", path, (int)getpid()), *copy;
    const char *folder;
    bool good;
    int fd, error;

    copy = gr_strdup(path);
    folder = dirname(copy);
    (void)unlink(fresh); /* of a command that was killed here */
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    good = fd >= 0 && give_away(fd, folder) && write_all(fd, text) &&
           link(fresh, path) == 0;
    error = errno;
    if (fd >= 0) {
        close(fd);
        (void)unlink(fresh);
    }
    if (good && !sync_folder(folder)) {
        error = errno;
        good = false;
    }
    if (!good)
        snprintf(why, 200, "%.100s: %s", path, strerror(error));
    free(copy);
    free(fresh);
    errno = error;
    return good ? GR_OK : GR_REFUSE;
}

/* ---- the key pair ---- */

char *evidence_key_path(const char *state_dir)
{
    return gr_printf("%s/evidence.key", state_dir);
}

EVP_PKEY *evidence_key_read(const char *path, char why[200])
{
    FILE *in = fopen(path, "re");
    EVP_PKEY *key;

    if (!in) {
        int error = errno;

        snprintf(why, 200, "%.100s: %s", path, strerror(error));
        errno = error;
        return NULL;
    }
    key = PEM_read_PrivateKey(in, NULL, NULL, NULL);
    fclose(in);
    ERR_clear_error();
    errno = 0;
    if (key && EVP_PKEY_is_a(key, "ED25519"))
        return key;
    EVP_PKEY_free(key);
    snprintf(why, 200, "%.100s has no private key for Ed25519 (PEM)", path);
    return NULL;
}

static void put_pem(EVP_PKEY *key, bool private, struct buf *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    bool good = bio && (private ? PEM_write_bio_PrivateKey(bio, key, NULL, NULL,
                                                           0, NULL, NULL)
                                : PEM_write_bio_PUBKEY(bio, key));
    char *pem;
    long bytes = good ? BIO_get_mem_data(bio, &pem) : 0;

    if (good)
        buf_put(out, pem, (size_t)bytes);
    else
        die(EXIT_UNAVAILABLE, "libcrypto cannot write a key as PEM");
    BIO_free(bio);
}

gr_rc evidence_key_make(const char *path, char why[200])
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    struct buf pem;
    gr_rc rc;

    if (!key) {
        snprintf(why, 200, "libcrypto cannot create a key");
        return GR_REFUSE;
    }
    buf_init(&pem, PEM_MAX_BYTES);
    put_pem(key, true, &pem);
    rc = evidence_file_make(path, (struct bytes){pem.data, pem.len}, why);
    explicit_bzero(pem.data, pem.len);
    buf_fini(&pem);
    EVP_PKEY_free(key);
    return rc;
}

void evidence_key_public(EVP_PKEY *key, struct buf *out)
{
    put_pem(key, false, out);
}

/* ---- the story ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

void evidence_init(struct evidence *e, json_t *event)
{
    *e = (struct evidence){.event = event,
                           .timeline = json_array(),
                           .attempts = json_array(),
                           .acts = json_array(),
                           .heads = json_array(),
                           .missing = json_array()};
    timeline_add(e->timeline, event);
}

void evidence_fini(struct evidence *e)
{
    json_decref(e->event);
    json_decref(e->request);
    json_decref(e->sent);
    json_decref(e->verification);
    json_decref(e->timeline);
    json_decref(e->attempts);
    json_decref(e->acts);
    json_decref(e->heads);
    json_decref(e->missing);
}

bool evidence_is_erased(const json_t *event)
{
    return strcmp(text_of(event, "reason"), "workspace_erased") == 0 &&
           strcmp(text_of(event, "type"), "erased") == 0;
}

json_t *evidence_names(const struct evidence *e)
{
    /* Only ids that Grapnel made: a sender may give its event the name of anything. */
    static const char *const keys[] = {"id", "request"};
    json_t *names = json_array();

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (*text_of(e->event, keys[i]))
            json_array_append(names, json_object_get(e->event, keys[i]));
    return names;
}

void evidence_take_request(struct evidence *e, json_t *request)
{
    const json_t *text = json_object_get(request, "body"),
                 *b64 = json_object_get(request, "body_b64");
    size_t n = json_string_length(b64);
    struct bytes body = {json_string_value(text), json_string_length(text)};
    uint8_t *raw = b64 ? gr_alloc(n + 1) : NULL, digest[SHA256_BYTES];
    struct buf hex;
    int bytes;

    e->request = request;
    if (b64) {
        bytes = encoding_base64((struct bytes){json_string_value(b64), n}, raw,
                                n);
        body = (struct bytes){raw, bytes > 0 ? (size_t)bytes : 0};
    }
    buf_init(&hex, 2 * SHA256_BYTES + 1);
    sha256(body, digest);
    hex_put(digest, sizeof digest, &hex);
    json_object_set_new(request, "body_sha256", json_string(hex.data));
    buf_fini(&hex);
    free(raw);
}

void evidence_take_trace(struct evidence *e, const json_t *reply)
{
    static const char *const keys[] = {"source", "verified_by", "secret",
                                       "received_at"};
    const json_t *by = json_object_get(reply, "verified_by");
    json_t *attempt, *copy;
    size_t i;

    timeline_add(e->timeline, reply);
    /* An event that came with others of one key is in several archives. */
    if (by && (!e->request ||
               json_equal(json_object_get(reply, "received_at"),
                          json_object_get(e->request, "received_at")))) {
        json_decref(e->verification);
        e->verification = json_object();
        for (i = 0; i < COUNT_OF(keys); i++)
            if (json_is_string(by) || strcmp(keys[i], "secret") != 0)
                json_object_set(e->verification, keys[i],
                                json_object_get(reply, keys[i]));
    }
    json_array_foreach(json_object_get(reply, "attempts"), i, attempt)
    {
        copy = json_deep_copy(attempt);
        sent_headers_fill(copy, e->event, e->request);
        json_array_append_new(e->attempts, copy);
    }
}

void evidence_request_deleted(struct evidence *e)
{
    bool own = strcmp(text_of(e->event, "source"), OPERATIONAL_SOURCE) == 0;

    evidence_misses(e, own ? "The sequencer no longer has the body of this "
                             "event of Grapnel's own (history.keep)."
                           : "The request is no longer in the archive "
                             "(ingress.archive.keep).");
}

static bool is_id(const json_t *v)
{
    const char *text = json_string_value(v);

    return text &&
           (strncmp(text, "evt_", 4) == 0 || strncmp(text, "dlq_", 4) == 0);
}

/* The number of those that did not fit into the row (acts.c). */
static bool is_rest(const json_t *v)
{
    const char *text = json_string_value(v);

    return text && strncmp(text, "…", strlen("…")) == 0;
}

/* A copy whose lists have only the event's own of all that they name: the others may be of somebody
 * else. */
static json_t *own_part(json_t *v, const json_t *names)
{
    json_t *out, *item;
    const char *key;
    size_t i, others = 0;
    bool named = false;

    if (json_is_object(v)) {
        out = json_object();
        json_object_foreach(v, key, item)
            json_object_set_new(out, key, own_part(item, names));
        return out;
    }
    if (!json_is_array(v))
        return json_incref(v);
    out = json_array();
    json_array_foreach(v, i, item) named |= acts_names(item, names);
    json_array_foreach(v, i, item)
    {
        if (acts_names(item, names) || is_rest(item) ||
            (!named && !is_id(item)))
            json_array_append_new(out, own_part(item, names));
        else
            others++;
    }
    if (others)
        json_array_append_new(out, json_sprintf("… %zu others", others));
    return out;
}

void evidence_take_acts(struct evidence *e, const json_t *rows)
{
    json_t *names = evidence_names(e), *row, *own;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        own = json_copy(row);
        json_object_set_new(own, "args",
                            own_part(json_object_get(row, "args"), names));
        json_array_append_new(e->acts, own);
    }
    json_decref(names);
}

void evidence_take_head(struct evidence *e, const json_t *reply)
{
    json_t *head = json_object_get(reply, "head");

    if (json_is_string(head))
        json_array_append(e->heads, head);
}

void evidence_misses(struct evidence *e, const char *fmt, ...)
{
    char *text = NULL;
    json_t *sentence;
    bool known = false;
    va_list ap;
    size_t i;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die(EXIT_STORAGE, "out of memory");
    va_end(ap);
    json_array_foreach(e->missing, i, sentence)
        known |= strcmp(json_string_value(sentence), text) == 0;
    if (!known && json_array_size(e->missing) < MISSING_MAX)
        json_array_append_new(e->missing, json_text_of(text));
    free(text);
}

/* ---- the file ---- */

/* The raw public key, and the beginning of its digest as the name of the key. */
static json_t *key_json(EVP_PKEY *key)
{
    uint8_t raw[PUBLIC_BYTES], digest[SHA256_BYTES];
    size_t n = sizeof raw;
    struct buf hex, id;
    json_t *out;

    if (!EVP_PKEY_get_raw_public_key(key, raw, &n))
        die(EXIT_UNAVAILABLE, "libcrypto cannot read the public key");
    sha256((struct bytes){raw, n}, digest);
    buf_init(&hex, 2 * PUBLIC_BYTES + 1);
    buf_init(&id, KEY_ID_DIGITS + 1);
    hex_put(raw, n, &hex);
    hex_put(digest, KEY_ID_DIGITS / 2, &id);
    out = json_pack("{s:s, s:s, s:s}", "algorithm", "Ed25519", "public",
                    hex.data, "id", id.data);
    buf_fini(&hex);
    buf_fini(&id);
    return out;
}

static json_t *document(const struct evidence *e, EVP_PKEY *key, const char *by,
                        int64_t now_ms)
{
    json_t *event = json_copy(e->event), *timeline, *out;

    json_object_del(event, "timeline");
    timeline = timeline_sorted(json_copy(e->timeline));
    out = json_pack("{s:i, s:o, s:o, s:s, s:o, s:O?, s:O?, s:O?}",
                    "grapnel_evidence", VERSION, "exported_at",
                    json_time(now_ms), "exported_by", json_text_of(by),
                    "grapnel_version", GRAPNEL_VERSION, "key", key_json(key),
                    "verification", e->verification, "request", e->request,
                    "sent", e->sent);
    json_object_set_new(out, "event", event);
    json_object_set(out, "attempts", e->attempts);
    json_object_set_new(out, "timeline", timeline);
    json_object_set(out, "acts", e->acts);
    json_object_set(out, "audit_heads", e->heads);
    json_object_set(out, "missing", e->missing);
    return out;
}

gr_rc evidence_write(const struct evidence *e, EVP_PKEY *key, const char *by,
                     int64_t now_ms, struct buf *out)
{
    json_t *doc = document(e, key, by, now_ms);
    char *text = json_dumps(doc, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    size_t n = text ? strlen(text) : 0, from = out->len;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t signature[SIGNATURE_BYTES];
    size_t bytes = sizeof signature;
    bool good;

    if (n > 2) { /* without "\n}" at its end */
        buf_put(out, text, n - 2);
        buf_puts(out, ",\n");
    }
    good = n > 2 && !out->failed && ctx &&
           EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
           EVP_DigestSign(ctx, signature, &bytes,
                          (const uint8_t *)out->data + from,
                          out->len - from) == 1;
    if (good) {
        buf_puts(out, "\"signature\":\"");
        hex_put(signature, bytes, out);
        buf_puts(out, "\"}\n");
    }
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    free(text);
    json_decref(doc);
    return good && !out->failed ? GR_OK : GR_REFUSE;
}
