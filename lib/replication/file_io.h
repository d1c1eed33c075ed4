/* file_io: reads and writes at an offset, completely, and syncs. A full disk is returned; any other error of a write or a sync ends the process (74),
 * because the state of the disk is unknown then. What a crash leaves is repeated at the next start. */
#ifndef REPLICATION_FILE_IO_H
#define REPLICATION_FILE_IO_H

#include "rc.h"

/* The number of bytes read: fewer than n only at the end of the file. -1: it cannot be read. */
int64_t file_read_at(int fd, void *to, size_t n, int64_t at);
/* GR_AGAIN: the disk is full; some of it may be written. */
GR_MUST_CHECK gr_rc file_write_at(const char *path, int fd, const void *p,
                                  size_t n, int64_t at);
/* GR_AGAIN: the disk is full. */
GR_MUST_CHECK gr_rc file_set_size(const char *path, int fd, int64_t bytes);
void file_sync(const char *path, int fd);
/* Syncs the folder that has this file, so that names in it are durable. */
void folder_sync(const char *path);
bool file_is_full(
    int error); /* Whether this errno says that the disk is full. */

#endif
