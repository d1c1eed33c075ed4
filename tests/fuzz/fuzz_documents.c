/* fuzz_documents: the settings of one endpoint as JSON. They are refused with a reason, or
 * written again as a document of the same meaning; secrets that are taken out come back. */
#include "endpoint_document.h"
#include "fuzz.h"

static char policy_name[] = "default";
static struct retry_policy policy = {.name = policy_name, .max_attempts = 3};
static const struct settings settings = {
    .policies = &policy,
    .policy_count = 1,
    .defaults = {.timeout_ms = 15000,
                 .connect_timeout_ms = 5000,
                 .max_in_flight = 32,
                 .breaker = true,
                 .guard = true,
                 .retry_policy = policy_name}};

static void secrets_come_back(json_t *doc)
{
    json_t *before = json_deep_copy(doc),
           *masked = endpoint_document_masked(doc);
    json_t *secrets = endpoint_document_take_secrets(doc);
    json_t *later = endpoint_document_masked(doc);

    fuzz_check(json_equal(masked, later));
    if (secrets)
        endpoint_document_add_secrets(doc, secrets);
    fuzz_check(json_equal(doc, before));
    json_decref(before);
    json_decref(masked);
    json_decref(secrets);
    json_decref(later);
}

static void is_written_alike(const struct endpoint_settings *e)
{
    json_t *written = endpoint_settings_document(&settings, e, false), *again;
    struct endpoint_settings *same;
    char field[128], why[300];

    same = endpoint_document_read(&settings, "e", written, false, field, why);
    fuzz_check(same != NULL);
    again = endpoint_settings_document(&settings, same, false);
    fuzz_check(json_equal(written, again));
    json_decref(written);
    json_decref(again);
    endpoint_document_free(same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *doc = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES,
                             NULL),
           *patch;
    struct endpoint_settings *e;
    struct own_subscription own;
    char field[128], why[300];
    bool good;

    if (!doc)
        return 0;
    good = endpoint_document_subscription(doc, &own);
    own_subscription_fini(&own);
    e = endpoint_document_read(&settings, "e", doc, n % 2, field, why);
    if (e) {
        fuzz_check(good);
        is_written_alike(e);
        secrets_come_back(doc);
    } else {
        json_t *error = json_pack("[s,s]", field, why);

        fuzz_check(error && *why);
        json_decref(error);
    }
    endpoint_document_free(e);
    patch = json_deep_copy(doc);
    endpoint_document_patch(doc, patch);
    json_decref(patch);
    json_decref(doc);
    return 0;
}
