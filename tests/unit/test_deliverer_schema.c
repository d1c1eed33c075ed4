/* Test of deliverer.db: store.sql and upgrade/ make the same schema. */
#include "schemas.h"
#include "store.h"

int main(void)
{
    return schemas_main(&deliverer_schema);
}
