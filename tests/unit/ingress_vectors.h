/* Vectors of providers whose scheme is one HMAC-SHA256 in a header of its own.
 * Made from a collection of vectors out of the providers' own documentation and
 * SDKs, and computed ones; never edited by hand. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
static const struct vector {
    const char *id, *provider, *secret;
    int64_t now_s; /* 0: any */
    bool valid;
    struct { const char *name, *value; } headers[8];
    const char *body; size_t body_bytes;
    const char *note;
} vectors[] = {
    {"bitbucket-01", "bitbucket",
     "It's a Secret to Everybody", 0, true,
     {{"X-Hub-Signature",
       "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937"
     "e133263c9"}},
     "Hello World!", 12,
     "Atlassian published vector (no comma in \"Hello World!\")"},
    {"bitbucket-03", "bitbucket",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature",
       "sha1=c515f330a339e006a451ec24110648f028c87a11"}},
     "Hello World!", 12,
     "sha1 method: refuse"},
    {"github-01", "github",
     "It's a Secret to Everybody", 0, true,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World!", 13,
     "docs.github.com validating-webhook-deliveries test values"},
    {"github-03", "github",
     "development", 0, true,
     {{"X-Hub-Signature-256",
       "sha256=afecc3caa27548bb90d51a50384cb2868b9a3327b4ad6a01c9bd4ed"
     "0f8b0b12c"}},
     "{\"foo\":\"Foo\\n\\u001B[34mbar: \342\231\245\342\231\245\342"
     "\231\245\342\231\245\342\231\245\342\231\245\342\231\245\342"
     "\231\245\\nthis-is-lost\\u001B[0m\\u001B[2K\"}", 86,
     "octokit/webhooks-methods.js special characters (#71): UTF-8 he"
     "arts and \\u001B escapes"},
    {"github-04", "github",
     "mysecret", 0, false,
     {{"X-Hub-Signature-256",
       "foo"}},
     "{\"foo\":\"bar\"}", 13,
     "octokit: bogus signature"},
    {"github-05", "github",
     "foo", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f34"
     "84236bda3"}},
     "{\"foo\":\"bar\"}", 13,
     "octokit: wrong secret"},
    {"github-06", "github",
     "It's a Secret to Everybody", 0, true,
     {{"x-hub-signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World!", 13,
     "lower-case header name: must PASS"},
    {"github-08", "github",
     "It's a Secret to Everybody", 0, true,
     {{"X-Hub-Signature-256",
       " sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f437"
     "9c8b043e17 "}},
     "Hello, World!", 13,
     "optional whitespace around the value is stripped by HTTP"},
    {"github-09", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World\077", 13,
     "tampered body"},
    {"github-10", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World!\012", 14,
     "trailing newline added"},
    {"github-11", "github",
     "It's a Secret to Everybody", 0, false,
     {},
     "Hello, World!", 13,
     "missing header"},
    {"github-13", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e"}},
     "Hello, World!", 13,
     "truncated hex"},
    {"github-14", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e1"}},
     "Hello, World!", 13,
     "odd-length hex"},
    {"github-15", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e1700"}},
     "Hello, World!", 13,
     "over-long hex"},
    {"github-16", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e"
     "17"}},
     "Hello, World!", 13,
     "prefix missing"},
    {"github-17", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "SHA256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World!", 13,
     "prefix in upper case"},
    {"github-18", "github",
     "It's a Secret to Everybody", 0, true,
     {{"X-Hub-Signature-256",
       "sha256=757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379"
     "C8B043E17"}},
     "Hello, World!", 13,
     "hex digits in upper case: decode then compare bytes"},
    {"github-19", "github",
     "It's a Secret to Everybody", 0, false,
     {{"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"},
      {"X-Hub-Signature-256",
       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379"
     "c8b043e17"}},
     "Hello, World!", 13,
     "duplicated header, both good: ambiguous, fail closed"},
    {"github-25", "github",
     "It's a Secret to Everybody", 0, true,
     {{"X-Hub-Signature-256",
       "sha256=66a0c074deaa0f489ead6537e0d32f9a344b90bbeda705b6ed45ecd"
     "3b413fb40"}},
     "", 0,
     "empty body correctly signed"},
    {"linear-01", "linear",
     "SECRET", 1700000000, true,
     {{"Linear-Signature",
       "3779cd64b8b6528af708387825dd89252d168faf9700941e313e0aa51aef5c"
     "f3"},
      {"Linear-Delivery",
       "234d1a4e-b617-4388-90fe-adc3633d6b72"},
      {"Linear-Event",
       "Comment"}},
     "{\"action\":\"create\",\"type\":\"Comment\",\"organizationId\""
     ":\"org-1\",\"webhookTimestamp\":1700000000000,\"webhookId\":\""
     "wh-1\",\"data\":{\"id\":\"2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9"
     "\"}}", 166,
     "linear/linear packages/sdk webhooks/client.ts rule"},
    {"linear-02", "linear",
     "SECRET", 1700000061, false,
     {{"Linear-Signature",
       "3779cd64b8b6528af708387825dd89252d168faf9700941e313e0aa51aef5c"
     "f3"},
      {"Linear-Delivery",
       "234d1a4e-b617-4388-90fe-adc3633d6b72"},
      {"Linear-Event",
       "Comment"}},
     "{\"action\":\"create\",\"type\":\"Comment\",\"organizationId\""
     ":\"org-1\",\"webhookTimestamp\":1700000000000,\"webhookId\":\""
     "wh-1\",\"data\":{\"id\":\"2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9"
     "\"}}", 166,
     "webhookTimestamp older than 60 s"},
    {"plane-02", "plane",
     "plane_wh_0123456789abcdef0123456789abcdef", 0, false,
     {{"Content-Type",
       "application/json"},
      {"User-Agent",
       "Autopilot"},
      {"X-Plane-Delivery",
       "f819eff4-cd50-4987-bc97-e5be1e04c94f"},
      {"X-Plane-Event",
       "issue"},
      {"X-Plane-Signature",
       "2fa39683316560f53964d5fad3da7232b975974ad0101a2169bdf1994cf405"
     "ec"}},
     "{\"event\":\"issue\",\"action\":\"created\",\"webhook_id\":\"3"
     "c2c32ac-82df-48b3-be2a-a3e21dbe8692\",\"workspace_id\":\"d2d97"
     "c94-a6ad-4012-b526-5577c0d7c769\",\"data\":{\"id\":\"22b6fc9c-"
     "1849-45da-b103-52a3e3a6b4c1\",\"name\":\"Caf\\u00e9 \\u2615 ti"
     "cket\"},\"activity\":{\"field\":null,\"new_value\":null,\"old_"
     "value\":null,\"actor\":{\"id\":\"16c61a3a-512a-48ac-b0be-b6b46"
     "fe6f430\",\"display_name\":\"x\"},\"old_identifier\":null,\"ne"
     "w_identifier\":null}}", 405,
     "compact re-serialisation"},
    {"plane-04", "plane",
     "plane_wh_0123456789abcdef0123456789abcdef", 0, true,
     {{"content-type",
       "application/json"},
      {"user-agent",
       "Autopilot"},
      {"x-plane-delivery",
       "f819eff4-cd50-4987-bc97-e5be1e04c94f"},
      {"x-plane-event",
       "issue"},
      {"x-plane-signature",
       "2fa39683316560f53964d5fad3da7232b975974ad0101a2169bdf1994cf405"
     "ec"}},
     "{\"event\": \"issue\", \"action\": \"created\", \"webhook_id\""
     ": \"3c2c32ac-82df-48b3-be2a-a3e21dbe8692\", \"workspace_id\": "
     "\"d2d97c94-a6ad-4012-b526-5577c0d7c769\", \"data\": {\"id\": "
     "\"22b6fc9c-1849-45da-b103-52a3e3a6b4c1\", \"name\": \"Caf\\u00"
     "e9 \\u2615 ticket\"}, \"activity\": {\"field\": null, \"new_va"
     "lue\": null, \"old_value\": null, \"actor\": {\"id\": \"16c61a"
     "3a-512a-48ac-b0be-b6b46fe6f430\", \"display_name\": \"x\"}, \""
     "old_identifier\": null, \"new_identifier\": null}}", 433,
     "lower-case header names"},
    {"plane-05", "plane",
     "plane_wh_0123456789abcdef0123456789abcdef", 0, false,
     {{"Content-Type",
       "application/json"},
      {"User-Agent",
       "Autopilot"},
      {"X-Plane-Delivery",
       "f819eff4-cd50-4987-bc97-e5be1e04c94f"},
      {"X-Plane-Event",
       "issue"}},
     "{\"event\": \"issue\", \"action\": \"created\", \"webhook_id\""
     ": \"3c2c32ac-82df-48b3-be2a-a3e21dbe8692\", \"workspace_id\": "
     "\"d2d97c94-a6ad-4012-b526-5577c0d7c769\", \"data\": {\"id\": "
     "\"22b6fc9c-1849-45da-b103-52a3e3a6b4c1\", \"name\": \"Caf\\u00"
     "e9 \\u2615 ticket\"}, \"activity\": {\"field\": null, \"new_va"
     "lue\": null, \"old_value\": null, \"actor\": {\"id\": \"16c61a"
     "3a-512a-48ac-b0be-b6b46fe6f430\", \"display_name\": \"x\"}, \""
     "old_identifier\": null, \"new_identifier\": null}}", 433,
     "unsigned (Plane omits the header when secret_key is empty): re"
     "fuse"},
    {"plane-06", "plane",
     "plane_wh_0123456789abcdef0123456789abcdef", 0, false,
     {{"Content-Type",
       "application/json"},
      {"User-Agent",
       "Autopilot"},
      {"X-Plane-Delivery",
       "f819eff4-cd50-4987-bc97-e5be1e04c94f"},
      {"X-Plane-Event",
       "issue"},
      {"X-Plane-Signature",
       "sha256=2fa39683316560f53964d5fad3da7232b975974ad0101a2169bdf19"
     "94cf405ec"}},
     "{\"event\": \"issue\", \"action\": \"created\", \"webhook_id\""
     ": \"3c2c32ac-82df-48b3-be2a-a3e21dbe8692\", \"workspace_id\": "
     "\"d2d97c94-a6ad-4012-b526-5577c0d7c769\", \"data\": {\"id\": "
     "\"22b6fc9c-1849-45da-b103-52a3e3a6b4c1\", \"name\": \"Caf\\u00"
     "e9 \\u2615 ticket\"}, \"activity\": {\"field\": null, \"new_va"
     "lue\": null, \"old_value\": null, \"actor\": {\"id\": \"16c61a"
     "3a-512a-48ac-b0be-b6b46fe6f430\", \"display_name\": \"x\"}, \""
     "old_identifier\": null, \"new_identifier\": null}}", 433,
     "prefix where none belongs"},
    {"sentry-01", "sentry",
     "client-secret", 0, true,
     {{"Sentry-Hook-Signature",
       "62d6f2bae1e4fbc11fb6c693f57a6ac64bfee9179ba616c07284840603e2cb"
     "a6"}},
     "{\"action\":\"created\",\"installation\":{\"uuid\":\"a8e5d37a"
     "\"},\"data\":{\"issue\":{\"id\":\"1\"}},\"actor\":{\"type\":\""
     "user\"}}", 107,
     "hex HMAC-SHA256 of the body; Sentry-Hook-Timestamp is NOT sign"
     "ed"},
    {"sentry-03", "sentry",
     "client-secret", 0, false,
     {},
     "{\"action\":\"created\",\"installation\":{\"uuid\":\"a8e5d37a"
     "\"},\"data\":{\"issue\":{\"id\":\"1\"}},\"actor\":{\"type\":\""
     "user\"}}", 107,
     "missing header"},
    {"shopify-01", "shopify",
     "hush", 0, true,
     {{"X-Shopify-Hmac-Sha256",
       "UFwgrGBPZilFtmKh8TqcovA78LGYb1BdWu9I4Q2oyRg="},
      {"X-Shopify-Topic",
       "orders/create"},
      {"X-Shopify-Shop-Domain",
       "shop.myshopify.com"}},
     "{}", 2,
     "body and headers as in shopify-api-ruby test/webhooks/registry"
     "_test.rb; key ours"},
    {"shopify-03", "shopify",
     "hush", 0, false,
     {{"X-Shopify-Hmac-Sha256",
       "505c20ac604f662945b662a1f13a9ca2f03bf0b1986f505d5aef48e10da8c9"
     "18"}},
     "{}", 2,
     "hex instead of base64"},
    {"shopify-04", "shopify",
     "hush", 0, false,
     {{"X-Shopify-Hmac-Sha256",
       "invalid"}},
     "{}", 2,
     "registry_test.rb test_process_hmac_validation_fails"},
    {"slack-01", "slack",
     "8f742231b10e8888abcd99yyyzzz85a5", 1531420618, true,
     {{"X-Slack-Request-Timestamp",
       "1531420618"},
      {"X-Slack-Signature",
       "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c6"
     "9b503"}},
     "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=t"
     "estteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2"
     "CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
     "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2J"
     "H3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=39873"
     "8663015.47445629121.803a0bc887a14d10d2c447fce8b6703c", 362,
     "docs.slack.dev verifying-requests + python-slack-sdk test_sign"
     "ature_verifier.py"},
    {"slack-02", "slack",
     "8f742231b10e8888abcd99yyyzzz85a5", 1531420618, false,
     {{"X-Slack-Request-Timestamp",
       "1531420618"},
      {"X-Slack-Signature",
       "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c6"
     "9b503"}},
     "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=t"
     "estteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2"
     "CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
     "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2J"
     "H3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=39873"
     "8663015.47445629121.803a0bc887a14d10d2c447fce8b6703c------", 368,
     "test_is_valid_request_invalid_body"},
    {"slack-03", "slack",
     "8f742231b10e8888abcd99yyyzzz85a5", 1531420919, false,
     {{"X-Slack-Request-Timestamp",
       "1531420618"},
      {"X-Slack-Signature",
       "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c6"
     "9b503"}},
     "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=t"
     "estteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2"
     "CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
     "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2J"
     "H3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=39873"
     "8663015.47445629121.803a0bc887a14d10d2c447fce8b6703c", 362,
     "expired by 1 s (scenario of test_is_valid_request_expiration)"},
    {"typeform-01", "typeform",
     "abc123", 0, true,
     {{"Typeform-Signature",
       "sha256=Nyzvo3OfSn5eTBYeoBNytnHzvU06BQg/vjEEfvmqehk="}},
     "{\"event_id\":\"01H\",\"event_type\":\"form_response\",\"form_"
     "response\":{\"form_id\":\"lT4Z3j\",\"token\":\"a3a12ec67a13659"
     "27098a606107fac15\"}}", 127,
     "prefix sha256= with BASE64 digest"},
    {"typeform-03", "typeform",
     "abc123", 0, false,
     {},
     "{\"event_id\":\"01H\",\"event_type\":\"form_response\",\"form_"
     "response\":{\"form_id\":\"lT4Z3j\",\"token\":\"a3a12ec67a13659"
     "27098a606107fac15\"}}", 127,
     "missing header"},
    {"typeform-04", "typeform",
     "abc123", 0, false,
     {{"Typeform-Signature",
       "sha256=372cefa3739f4a7e5e4c161ea01372b671f3bd4d3a05083fbe31047"
     "ef9aa7a19"}},
     "{\"event_id\":\"01H\",\"event_type\":\"form_response\",\"form_"
     "response\":{\"form_id\":\"lT4Z3j\",\"token\":\"a3a12ec67a13659"
     "27098a606107fac15\"}}", 127,
     "hex digest under sha256= (GitHub style): wrong here"},
    {"zoom-01", "zoom",
     "zoomSecretToken", 1700000000, true,
     {{"x-zm-request-timestamp",
       "1700000000"},
      {"x-zm-signature",
       "v0=c01738ece9ec5b6be26f684b93f6e172180a9875cc93b9f62527de3faf9"
     "8b59b"}},
     "{\"event\":\"meeting.started\",\"event_ts\":1700000000000,\"pa"
     "yload\":{\"account_id\":\"AAAAAABBBB\",\"object\":{\"id\":\"12"
     "34567890\"}}}", 119,
     "zoom/webhook-sample index.js rule over the RAW body"},
    {"zoom-03", "zoom",
     "zoomSecretToken", 1700000000, false,
     {{"x-zm-request-timestamp",
       "1700000000"},
      {"x-zm-signature",
       "v0=c01738ece9ec5b6be26f684b93f6e172180a9875cc93b9f62527de3faf9"
     "8b59b"}},
     "{\"event\":\"meeting.started\",\"event_ts\":1700000000000,\"pa"
     "yload\": {\"account_id\":\"AAAAAABBBB\",\"object\": {\"id\":\""
     "1234567890\"}}}", 121,
     "re-serialised body (the official sample hashes JSON.stringify "
     "of the parsed body; hash the raw bytes instead)"},
};
