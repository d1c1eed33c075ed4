/* Test of reconcile.db: store.sql and upgrade/ make the same schema. */
#include "reconcile.h"
#include "schemas.h"

int main(void)
{
    return schemas_main(&reconcile_schema);
}
