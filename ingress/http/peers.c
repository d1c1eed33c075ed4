/* peers: looks for the inboxes of other ingress processes in run_dir. */
#include "peers.h"
#include "daemon.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A killed process leaves its socket's file behind, but nothing accepts connections there. */
static bool responds(const char *folder, const char *file)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", folder, file);
    bool yes = fd >= 0 && n > 0 && (size_t)n < sizeof at.sun_path &&
               (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ||
                errno == EAGAIN);

    if (fd >= 0)
        close(fd);
    return yes;
}

static bool is_other_inbox(const char *file, const char *own)
{
    static const char kind[] = "ingress", inbox[] = ".inbox";
    size_t n = strlen(file), name_n = n - (sizeof inbox - 1);

    return n >= sizeof inbox && strcmp(file + name_n, inbox) == 0 &&
           strncmp(file, kind, sizeof kind - 1) == 0 &&
           (strlen(own) != name_n || strncmp(file, own, name_n) != 0);
}

bool peers_running(void *arg)
{
    const struct daemon *d = arg;
    DIR *dir = opendir(d->settings->run_dir);
    const struct dirent *e;
    bool any = false;

    while (dir && !any && (e = readdir(dir)))
        any = is_other_inbox(e->d_name, d->name) &&
              responds(d->settings->run_dir, e->d_name);
    if (dir)
        closedir(dir);
    return any;
}
