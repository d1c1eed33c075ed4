/* db_version: reads the schema version from a database file or its write-ahead log. */
#include "db_version.h"
#include "wal_file.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The offset in the first page. Source:
 * https://www.sqlite.org/fileformat2.html#the_database_header */
enum { VERSION_AT = 60, HEAD_BYTES = 64 };

static const char magic[] = "SQLite format 3";

static int version_in(const uint8_t *page)
{
    const uint8_t *p = page + VERSION_AT;

    return (int)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                 (uint32_t)p[2] << 8 | p[3]);
}

/* A log that a crash left may contain a migration that is not in the file yet. */
static int version_in_log(const char *path, int version)
{
    bool good = false;
    struct wal_file *w = wal_file_open(path, &good);
    int written = version;

    while (good && wal_file_read(w) && wal_file_is_valid(w, w->sums)) {
        w->sums = wal_file_sums(w);
        if (wal_file_page(w) == 1)
            written = version_in(wal_file_bytes(w));
        if (wal_file_is_commit(w))
            version = written;
    }
    wal_file_close(w);
    return version;
}

int db_version_of(const char *path)
{
    FILE *file = fopen(path, "rbe");
    uint8_t head[HEAD_BYTES];
    int version = 0;

    if (file && fread(head, sizeof head, 1, file) == 1 &&
        memcmp(head, magic, sizeof magic) == 0)
        version = version_in(head);
    if (file)
        fclose(file);
    return version_in_log(path, version);
}
