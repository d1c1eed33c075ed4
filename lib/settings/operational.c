/* operational: the list of the types of operational events. */
#include "operational.h"
#include "string_list.h"

static char *types[] = {
#define O(NAME, type) (char[]){type},
    OPERATIONAL_KINDS(O)
#undef O
};

const struct string_list operational_types = {types, OPERATIONAL_COUNT};
