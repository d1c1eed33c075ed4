/* Test of outbox.db: store.sql and upgrade/ make the same schema. */
#include "outbox.h"
#include "schemas.h"

int main(void)
{
    return schemas_main(&outbox_schema);
}
