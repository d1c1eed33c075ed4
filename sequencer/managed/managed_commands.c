/* managed_commands: makes, changes, rotates and deletes endpoints at run time. */
#include "managed_commands.h"
#include "clock.h"
#include "conf.h"
#include "config.h"
#include "ended.h"
#include "endpoint_document.h"
#include "json_text.h"
#include "log.h"
#include "managed_endpoints.h"
#include "operational.h"
#include "sequencer.h"
#include "show_endpoints.h"
#include "store.h"
#include "store_search.h"
#include "temporary.h"
#include "tenants.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    SECRET_BYTES = 32,
    SECRET_TEXT_BYTES = 64, /* whsec_ and base64 of SECRET_BYTES */
    /* With those that end soon. */
    SIGNING_SECRETS_MAX = 5,
};
static const int64_t overlap_usual_ms = DAY_MS;

/* Arguments that are not settings. */
static const char *const own_args[] = {
    "name", "id", "version", "who", "description", "tenant", NULL};

static json_t *settings_in(const json_t *args)
{
    json_t *doc = json_deep_copy(args);

    for (int i = 0; own_args[i]; i++)
        json_object_del(doc, own_args[i]);
    return doc;
}

static const char *text_in(const json_t *args, const char *key)
{
    const char *text = json_string_value(json_object_get(args, key));

    return text ? text : "";
}

/* The error of a document, as that of an argument. */
static void refuse(char why[200], const char *field, const char *what)
{
    control_fail(why, CONTROL_INVALID,
                 *field ? "args.%.60s: %.130s" : "%s%.190s", field, what);
}

static void make_secret(char text[SECRET_TEXT_BYTES])
{
    unsigned char random[SECRET_BYTES];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    memcpy(text, "whsec_", 6);
    EVP_EncodeBlock((unsigned char *)text + 6, random, sizeof random);
    OPENSSL_cleanse(random, sizeof random);
}

static bool is_pull(const json_t *doc)
{
    return strcmp(text_in(doc, "transport"), "pull") == 0;
}

/* ---- tokens of workspaces ---- */

static bool is_only(const json_t *workspaces, const char *tenant)
{
    if (json_is_array(workspaces))
        workspaces = json_array_size(workspaces) == 1
                         ? json_array_get(workspaces, 0)
                         : NULL;
    return json_is_string(workspaces) &&
           strcmp(json_string_value(workspaces), tenant) == 0;
}

/* Gives the settings of a token's request the workspace of the token (NULL: of another role). false:
 * they name another one. */
static bool confine(json_t *doc, const char *tenant, char why[200])
{
    const json_t *workspaces = json_object_get(doc, "workspaces");

    if (!tenant)
        return true;
    if (workspaces && !json_is_null(workspaces) &&
        !is_only(workspaces, tenant)) {
        control_fail(why, CONTROL_INVALID,
                     "args.workspaces: with the token of a workspace, only "
                     "that workspace is possible; leave it out");
        return false;
    }
    json_object_set_new(doc, "workspaces", json_pack("[s]", tenant));
    return true;
}

/* It may make one more. */
static bool has_space(struct sequencer *q, const char *tenant, char why[200])
{
    int64_t max = q->d.settings->tenants.endpoints, is;

    if (!tenant)
        return true;
    is = managed_in_workspace(q, tenant, max) +
         managed_deleted_since(q, tenant, q->d.loop.now_ms - DAY_MS);
    if (is < max)
        return true;
    control_fail(why, CONTROL_REFUSED,
                 "this workspace has %lld endpoints, with those that were "
                 "deleted in the last 24 hours: no more are allowed",
                 (long long)is);
    return false;
}

/* What only an operator may set, neither the patch nor the endpoint has: to remove such a setting
 * can open what it closed, and another URL would use it. */
static bool keeps_closed(const json_t *was, const json_t *patch, char why[200])
{
    const char *closed = endpoint_document_closed(patch);

    if (closed) {
        control_fail(why, CONTROL_INVALID,
                     "args.%s: cannot be set, changed or removed with the "
                     "token of a workspace",
                     closed);
        return false;
    }
    closed = endpoint_document_closed(was);
    if (!closed)
        return true;
    control_fail(why, CONTROL_INVALID,
                 "args.%s: an operator has set it for this endpoint, which "
                 "cannot be changed with the token of a workspace",
                 closed);
    return false;
}

/* An operator may have given it headers with secrets: a change of the URL or of the transport has to
 * have them again, so that they reach neither another server nor a consumer. */
static bool keeps_headers(const json_t *was, const json_t *patch, char why[200])
{
    const json_t *now = json_object_get(patch, "headers");
    const char *name;
    json_t *value;

    if (!json_object_get(patch, "url") && !json_object_get(patch, "transport"))
        return true;
    json_object_foreach(json_object_get(was, "headers"), name,
                        value) if (!json_object_get(now, name))
    {
        control_fail(why, CONTROL_INVALID,
                     "args.headers: with another url or transport, write "
                     "each header again, or null to remove it; %.60s is "
                     "missing",
                     name);
        return false;
    }
    return true;
}

/* ---- documents ---- */

/* What is allowed but probably a mistake, for who asks; NULL: nothing. */
static json_t *warnings_of(const struct endpoint_settings *s, bool tenant)
{
    char *host = settings_blocked_host(s->url, &s->allow_private);
    json_t *out = NULL;

    if (host)
        out = json_pack(
            "[o]",
            json_sprintf("%.100s is a private address: every request to it is "
                         "blocked (blocked_address). %s",
                         host,
                         tenant ? "Only the operator of Grapnel can permit it"
                                : "To permit it, set `allow_private` to true "
                                  "or a list of networks such as "
                                  "[\"127.0.0.0/8\"]"));
    free(host);
    return out;
}

/* Checks the whole document. false: `why` says what is wrong. `ordered` and `warnings` may be
 * NULL; the warnings are the caller's. */
static bool is_good(struct sequencer *q, const char *id, const json_t *doc,
                    bool tenant, int *ordered, json_t **warnings, char why[200])
{
    char field[128] = "", what[300] = "";
    struct endpoint_settings *s = endpoint_document_read(q->d.settings, id, doc,
                                                         tenant, field, what);

    if (!s) {
        refuse(why, field, what);
        return false;
    }
    if (ordered)
        *ordered = (int)s->ordered;
    if (warnings)
        *warnings = warnings_of(s, tenant);
    endpoint_document_free(s);
    return true;
}

static void note(struct sequencer *q, const struct endpoint *e,
                 const char *what)
{
    store_action_note(q->search, q->d.loop.now_ms, "endpoint", e->name,
                      "%s by %s", what, control_actor(q->d.control));
}

/* `warnings`: NULL, or what warnings_of() returned. */
static json_t *reply(struct sequencer *q, const struct endpoint *e,
                     const char *secret, json_t *warnings)
{
    json_t *out = endpoint_show(q, e);

    json_object_set_new(out, "effective_from", json_integer(q->next_event));
    json_object_set_new(out, "secret",
                        secret ? json_string(secret) : json_null());
    if (warnings)
        json_object_set(out, "warnings", warnings);
    return out;
}

/* ---- create ---- */

/* The caller's id, or a new one; false: it cannot be used. */
static bool choose_id(struct sequencer *q, const char *wanted,
                      char id[NAME_MAX_BYTES + 1], char why[200])
{
    char number[ULID_BYTES + 1];

    if (q->endpoint_count &&
        q->endpoints[q->endpoint_count - 1].id >= ENDPOINTS_MAX - 1) {
        control_fail(why, CONTROL_REFUSED,
                     "there were %d endpoints, with those that were deleted: "
                     "no more are possible",
                     ENDPOINTS_MAX - 1);
        return false;
    }
    if (!*wanted) {
        ulid_next(&q->ids, q->d.loop.now_ms, number);
        snprintf(id, NAME_MAX_BYTES + 1, MANAGED_ID_PREFIX "%s", number);
        return true;
    }
    if (!endpoint_id_valid(wanted)) {
        control_fail(why, CONTROL_INVALID,
                     "args.id: \"%.60s\" is not the id of an endpoint", wanted);
        return false;
    }
    if (endpoint_find(q, wanted)) {
        control_fail(why, CONTROL_REFUSED,
                     "%s exists, or existed: ids are never used again", wanted);
        return false;
    }
    snprintf(id, NAME_MAX_BYTES + 1, "%s", wanted);
    return true;
}

/* Its secrets, if it has any, can be stored. */
static bool may_keep(struct sequencer *q, const json_t *doc, char why[200])
{
    json_t *copy = json_deep_copy(doc),
           *secrets = endpoint_document_take_secrets(copy);
    char what[300] = "";
    bool may = !secrets || managed_can_seal(q, what);

    json_decref(secrets);
    json_decref(copy);
    if (!may)
        refuse(why, "", what);
    return may;
}

json_t *managed_create_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    char id[NAME_MAX_BYTES + 1], secret[SECRET_TEXT_BYTES] = "", what[300];
    json_t *doc = settings_in(args), *none = json_object(), *warnings = NULL,
           *out = NULL;
    const char *tenant = tenant_of(args);
    struct managed_row row = {.version = 1,
                              .description = text_in(args, "description"),
                              .created_ms = q->d.loop.now_ms,
                              .created_by = control_actor(q->d.control),
                              .changed_ms = q->d.loop.now_ms};
    struct endpoint *e;
    int ordered;

    endpoint_document_patch(doc, none); /* nulls are defaults */
    if (!json_object_get(doc, "signing_secrets") && !is_pull(doc)) {
        make_secret(secret);
        json_object_set_new(doc, "signing_secrets", json_pack("[s]", secret));
    }
    if (confine(doc, tenant, why) && has_space(q, tenant, why) &&
        choose_id(q, text_in(args, "id"), id, why) &&
        is_good(q, id, doc, tenant, &ordered, &warnings, why) &&
        may_keep(q, doc, why)) {
        e = endpoint_find_or_add(q, id);
        e->ordered = ordered;
        if (managed_write(q, e, &row, doc, what)) {
            note(q, e, "made");
            endpoint_changed(q, e);
            log_info(NULL, "an endpoint was made", LS("endpoint", id),
                     LS("by", row.created_by));
            out = reply(q, e, *secret ? secret : NULL, warnings);
        } else {
            endpoint_note_gone(q, e);
            refuse(why, "", what);
        }
    }
    OPENSSL_cleanse(secret, sizeof secret);
    json_decref(warnings);
    json_decref(none);
    json_decref(doc);
    return out;
}

/* The sources and producers of the configuration, for people. */
static void list_sources(const struct settings *s, struct buf *out)
{
    for (size_t i = 0; i < s->source_count; i++)
        buf_printf(out, "%s%s", out->len ? ", " : "", s->sources[i].name);
    for (size_t i = 0; i < s->producer_count; i++)
        buf_printf(out, "%s%s", out->len ? ", " : "", s->producers[i].name);
    buf_put(out, "", 1);
}

/* Each source exists. false: `why` says which does not. */
static bool know_sources(const struct sequencer *q, const json_t *doc,
                         char why[200])
{
    const struct settings *s = q->d.settings;
    struct buf all;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(doc, "sources"), i, one)
    {
        const char *name = json_string_value(one);

        if (strchr(name, '*') || settings_source(s, name) ||
            settings_producer(s, name) || strcmp(name, OPERATIONAL_SOURCE) == 0)
            continue;
        buf_init(&all, TEXT_MAX_BYTES);
        list_sources(s, &all);
        control_fail(why, CONTROL_INVALID,
                     "args.sources: there is no source \"%.40s\"; the sources "
                     "and producers are: %.90s",
                     name, all.failed ? "many" : all.data);
        buf_fini(&all);
        return false;
    }
    return true;
}

json_t *temporary_create_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    char id[NAME_MAX_BYTES + 1], what[300];
    json_t *doc = settings_in(args), *out = NULL;
    struct managed_row row = {.version = 1,
                              .description = text_in(args, "description"),
                              .created_ms = q->d.loop.now_ms,
                              .created_by = control_actor(q->d.control),
                              .changed_ms = q->d.loop.now_ms};
    struct endpoint *e;
    int ordered;

    json_object_set_new(doc, "transport", json_string("pull"));
    if (choose_id(q, "", id, why) && know_sources(q, doc, why) &&
        is_good(q, id, doc, false, &ordered, NULL, why) &&
        temporary_may_make(q, why)) {
        e = endpoint_add_temporary(q, id);
        e->ordered = ordered;
        e->counted_ms = q->d.loop.awake_ms;
        if (managed_write(q, e, &row, doc, what)) {
            endpoint_list_put(q, e, ENDPOINTS_TEMPORARY);
            note(q, e, "made");
            endpoint_changed(q, e);
            log_info(NULL, "a temporary endpoint was made", LS("endpoint", id),
                     LS("by", row.created_by));
            out = reply(q, e, NULL, NULL);
        } else {
            endpoint_note_gone(q, e);
            refuse(why, "", what);
        }
    }
    json_decref(doc);
    return out;
}

/* ---- change, rotate ---- */

/* The endpoint of args.name, if it was made at run time and, where the caller says so, still
 * has this version. */
static struct endpoint *named(struct sequencer *q, const json_t *args,
                              char why[200])
{
    const char *name = text_in(args, "name");
    struct endpoint *e = endpoint_find(q, name);
    const char *tenant = tenant_of(args);
    json_int_t version = json_integer_value(json_object_get(args, "version"));
    struct managed_row row;

    if (!e || !endpoint_is_configured(e) ||
        !tenant_has_endpoint(q, tenant, e->id)) {
        endpoint_unknown(q, name, why);
        return NULL;
    }
    if (!e->managed) {
        control_fail(why, CONTROL_REFUSED,
                     "%s is in the configuration file: change it there, and "
                     "reload",
                     name);
        return NULL;
    }
    if (managed_read(q, e, &row) && version && version != row.version) {
        control_fail(why, CONTROL_CHANGED,
                     "%s was changed meanwhile: it has version %lld now", name,
                     (long long)row.version);
        e = NULL;
    }
    managed_done(q);
    return e;
}

/* A row that is being changed: a copy of its texts, and its document. */
struct changing {
    struct managed_row row;
    char *description, *created_by;
    json_t *doc, *warnings;
};

static bool change_begin(struct sequencer *q, const struct endpoint *e,
                         struct changing *c, char why[200])
{
    char what[300] = "it is not there";

    *c = (struct changing){.doc = NULL};
    if (managed_read(q, e, &c->row)) {
        c->description = gr_strdup(c->row.description);
        c->created_by = gr_strdup(c->row.created_by);
        c->doc = managed_document(q, e, &c->row, what);
    }
    managed_done(q);
    c->row.description = c->description;
    c->row.created_by = c->created_by;
    c->row.version++;
    c->row.changed_ms = q->d.loop.now_ms;
    if (!c->doc)
        control_fail(why, CONTROL_REFUSED, "%.190s", what);
    return c->doc != NULL;
}

static void change_end(struct changing *c)
{
    json_decref(c->doc);
    json_decref(c->warnings);
    free(c->description);
    free(c->created_by);
}

/* A customer with a token of the new workspace could take the deliveries that wait, or choose the URL
 * to which they are sent. */
static bool may_belong(struct sequencer *q, const struct endpoint *e,
                       const json_t *doc, char why[200])
{
    const char *to = endpoint_document_workspace(doc);
    char *from = managed_workspace(q, e->id);
    bool may = !to || e->temporary || (from && strcmp(from, to) == 0) ||
               !store_has_open(q->store, e->id, e->grant);

    if (!may)
        control_fail(why, CONTROL_REFUSED,
                     "deliveries wait for %.40s, so it cannot become one of "
                     "this workspace alone: let them end first, or make "
                     "another endpoint and delete this one",
                     e->name);
    free(from);
    return may;
}

static bool write_change(struct sequencer *q, struct endpoint *e,
                         struct changing *c, bool tenant, char why[200])
{
    char what[300];

    if (!is_good(q, e->name, c->doc, tenant, NULL, &c->warnings, why))
        return false;
    if (e->temporary && !is_pull(c->doc)) {
        control_fail(why, CONTROL_INVALID,
                     "args.transport: %.60s is temporary, so it stays `pull`",
                     e->name);
        return false;
    }
    if (!may_belong(q, e, c->doc, why))
        return false;
    if (managed_write(q, e, &c->row, c->doc, what))
        return true;
    refuse(why, "", what);
    return false;
}

json_t *managed_change_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);
    json_t *patch = settings_in(args), *out = NULL;
    const json_t *description = json_object_get(args, "description");
    const char *tenant = tenant_of(args);
    struct changing c = {.doc = NULL};

    if (e && confine(patch, tenant, why) && change_begin(q, e, &c, why) &&
        (!tenant || (keeps_closed(c.doc, patch, why) &&
                     keeps_headers(c.doc, patch, why)))) {
        if (description)
            c.row.description = text_in(args, "description");
        if (json_object_get(patch, "signing_secrets"))
            c.row.retire_ms = 0;
        endpoint_document_patch(c.doc, patch);
        if (write_change(q, e, &c, tenant, why)) {
            note(q, e, "changed");
            log_info(NULL, "an endpoint was changed", LS("endpoint", e->name),
                     LI("version", c.row.version),
                     LS("by", control_actor(q->d.control)));
            out = reply(q, e, NULL, c.warnings);
        }
    }
    if (e)
        change_end(&c);
    json_decref(patch);
    return out;
}

json_t *managed_rotate_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);
    const json_t *overlap = json_object_get(args, "overlap");
    int64_t overlap_ms = overlap_usual_ms;
    const char *wrong = NULL;
    char secret[SECRET_TEXT_BYTES];
    json_t *all, *out = NULL;
    struct changing c;

    if (overlap && conf_parse_duration(json_string_value(overlap), &overlap_ms,
                                       &wrong) != GR_OK) {
        control_fail(why, CONTROL_INVALID, "args.overlap: \"%.40s\" %.130s",
                     json_string_value(overlap), wrong);
        return NULL;
    }
    if (!e || !change_begin(q, e, &c, why))
        return NULL;
    make_secret(secret);
    all = json_object_get(c.doc, "signing_secrets");
    if (!all)
        json_object_set_new(c.doc, "signing_secrets", all = json_array());
    if (!overlap_ms)
        json_array_clear(all);
    json_array_insert_new(all, 0, json_string(secret));
    while (json_array_size(all) > SIGNING_SECRETS_MAX)
        json_array_remove(all, json_array_size(all) - 1);
    c.row.retire_ms = json_array_size(all) > 1 ? q->d.loop.now_ms + overlap_ms
                                               : 0;
    if (write_change(q, e, &c, false, why)) {
        note(q, e, "its signing secret was rotated");
        log_info(NULL, "the signing secret of an endpoint was rotated",
                 LS("endpoint", e->name),
                 LS("by", control_actor(q->d.control)));
        out = reply(q, e, secret, NULL);
        json_object_set_new(out, "old_secrets_end_at",
                            json_time(c.row.retire_ms));
    }
    OPENSSL_cleanse(secret, sizeof secret);
    change_end(&c);
    return out;
}

/* ---- delete, export ---- */

/* An endpoint whose deletion a crash or a full disk cut off, and which has been deleted since. */
static struct endpoint *ended(struct sequencer *q, const json_t *args)
{
    struct endpoint *e = endpoint_find(q, text_in(args, "name"));

    return e && e->ended && !tenant_of(args) ? e : NULL;
}

/* A temporary one that a restore brings back ends by itself. */
static bool end_for_good(struct sequencer *q, const struct endpoint *e,
                         char why[200])
{
    if (e->temporary)
        return true;
    if (ended_add(q->ended, e->name, ENDED_ENDPOINTS_MAX, q->d.loop.now_ms,
                  why) != GR_OK)
        return false;
    control_if_undone(q->d.control, ENDED_UNDONE);
    return true;
}

json_t *managed_delete_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *gone = ended(q, args);
    struct endpoint *e = gone ? gone : named(q, args, why);
    int64_t waiting;

    if (!e)
        return NULL;
    if (!end_for_good(q, e, why))
        return NULL;
    waiting = store_count_waiting(q->store, e->id, 10000);
    if (!gone)
        managed_delete(q, e);
    e->ended = false;
    note(q, e, "deleted");
    log_info(NULL, "an endpoint was deleted", LS("endpoint", e->name),
             LS("by", control_actor(q->d.control)), LI("waiting", waiting));
    return json_pack("{s:s,s:I,s:I}", "name", e->name, "effective_from",
                     (json_int_t)q->next_event, "waiting", (json_int_t)waiting);
}

json_t *temporary_delete_command(void *self, json_t *args, char why[200])
{
    const struct endpoint *e = endpoint_find(self, text_in(args, "name"));

    if (e && e->temporary)
        return managed_delete_command(self, args, why);
    control_fail(why, CONTROL_NOT_FOUND, "there is no temporary endpoint %.63s",
                 text_in(args, "name"));
    return NULL;
}

json_t *managed_secrets_command(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);
    struct changing c;
    json_t *out;

    if (!e || !change_begin(q, e, &c, why))
        return NULL;
    out = json_pack("{s:s,s:O,s:s}", "name", e->name, "settings", c.doc,
                    "description", c.description);
    change_end(&c);
    return out;
}

/* ---- what it is ---- */

void managed_describe(struct sequencer *q, const struct endpoint *e,
                      json_t *out)
{
    struct managed_row row;
    json_t *doc = NULL, *shown;
    bool there = e->managed && managed_read(q, e, &row);

    if (there)
        doc = json_loads(row.settings, 0, NULL);
    shown = doc ? endpoint_document_masked(doc)
            : e->settings && !e->managed
                ? endpoint_settings_document(q->d.settings, e->settings, true)
                : json_object();
    json_decref(doc);
    json_object_set_new(out, "managed_by",
                        e->managed    ? json_string("api")
                        : e->settings ? json_string("file")
                                      : json_null());
    json_object_set_new(out, "version",
                        json_number_or_null(there ? row.version : 0));
    json_object_set_new(out, "description",
                        json_text_or_null(there ? row.description : ""));
    json_object_set_new(out, "workspace",
                        json_text_or_null(there ? row.workspace : ""));
    json_object_set_new(out, "created_at",
                        json_time(there ? row.created_ms : 0));
    json_object_set_new(out, "created_by",
                        json_text_or_null(there ? row.created_by : ""));
    json_object_set_new(out, "changed_at",
                        json_time(there ? row.changed_ms : 0));
    json_object_set_new(out, "temporary", json_boolean(e->temporary));
    json_object_set_new(out, "expires_at",
                        json_time(temporary_expires_ms(q, e)));
    json_object_set_new(out, "settings", shown);
    if (e->managed)
        managed_done(q);
}
