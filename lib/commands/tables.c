/* tables: values that several declarations share. */
#include "tables.h"

const struct value value_text = TEXT("text", "");
const struct value value_id = TEXT("id", "", .min = 1, .max = 200);

const struct value value_header = LIST("header", &value_text, "name and value",
                                       .min = 2, .max = 2);

const char *const breaker_states[] = {"closed", "open", "probing", NULL};
