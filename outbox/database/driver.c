/* driver: finds the driver of a relay's database. */
#include "driver.h"
#include "settings.h"

const struct driver_ops *driver_of(const struct relay *relay)
{
    static const struct driver_ops *const drivers[] = {
        [RELAY_POSTGRES] = &postgres_driver,
        [RELAY_SQLITE] = &sqlite_driver,
        [RELAY_MARIADB] = &mariadb_driver};

    return drivers[relay_kind(relay)];
}
