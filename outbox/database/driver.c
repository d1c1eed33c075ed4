/* driver: finds the driver of a relay's database. */
#include "driver.h"

const struct driver_ops *driver_of(const struct relay *relay)
{
    (void)relay; /* the settings permit the URIs of PostgreSQL only */
    return &postgres_driver;
}
