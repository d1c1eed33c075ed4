/* Which configuration file a program reads, and what it says when there is none. */
#include "settings_types.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char default_path[] = "/etc/grapnel/grapnel.yaml",
                  local_name[] = "grapnel.yaml";

const char *settings_path(const char *named)
{
    const char *set = getenv("GRAPNEL_CONFIG");

    if (named)
        return named;
    return set && *set ? set : default_path;
}

/* By its address: whoever writes this path has named a file. */
void settings_put_path_hint(const char *path, struct buf *out)
{
    char *folder;

    if (path != default_path || access(path, R_OK) == 0)
        return;
    buf_puts(out, "Neither -c nor $GRAPNEL_CONFIG names a configuration");
    folder = access(local_name, F_OK) == 0 ? getcwd(NULL, 0) : NULL;
    if (folder)
        buf_printf(out,
                   ". There is a %s here, which is read only when it is named: "
                   "use -c %s, or export GRAPNEL_CONFIG=%s/%s\n",
                   local_name, local_name, folder, local_name);
    else
        buf_puts(out, ": use -c FILE, or export GRAPNEL_CONFIG=FILE\n");
    free(folder);
}
