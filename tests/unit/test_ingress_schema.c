/* Test of ingress.db: store.sql and upgrade/ make the same schema. */
#include "ingress.h"
#include "schemas.h"

int main(void)
{
    return schemas_main(&ingress_schema);
}
