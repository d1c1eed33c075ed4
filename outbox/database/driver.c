/* driver: finds the driver of a relay's database. */
#include "driver.h"
#include "settings.h"

const struct driver_ops *driver_of(const struct relay *relay)
{
    return relay_kind(relay) == RELAY_SQLITE ? &sqlite_driver
                                             : &postgres_driver;
}
