/* Test of ingress.db: store.sql and upgrade/ make the same schema. */
#include "schemas.h"
#include "store.h"

int main(void)
{
    return schemas_main(&ingress_schema);
}
