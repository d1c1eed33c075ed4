/* own_folder: whether state_dir and run_dir can be folders. */
#ifndef DAEMON_OWN_FOLDER_H
#define DAEMON_OWN_FOLDER_H

/* Why no process, of any user, can have its folder there; the caller's. NULL: it is a folder, or a
 * process may create it. Creates nothing. */
char *own_folder_trouble(const char *path);

#endif
