/* own_folder: whether state_dir and run_dir can be folders. */
#ifndef DAEMON_OWN_FOLDER_H
#define DAEMON_OWN_FOLDER_H

#include <stdbool.h>

/* Why no process, of any user, can have its folder there; the caller's. NULL: it is a folder, or a
 * process may create it. Creates nothing. */
char *own_folder_trouble(const char *path);
/* Whether the folder above it does not exist, so that no process can create it. It may exist on the machine for which a
 * configuration is. */
bool own_folder_lacks_parent(const char *path);

#endif
