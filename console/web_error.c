/* web_error: the table of errors. */
#include "web_error.h"

static const struct web_error_facts all[] = {
#define E(NAME, status, code, meaning) [WEB_##NAME] = {status, code, meaning},
    WEB_ERRORS(E)
#undef E
};

const struct web_error_facts *web_error_facts(enum web_error e)
{
    return &all[e];
}
