/* command: runs a notifier that is a program. */
#include "command.h"
#include "clock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENV_MAX = 12 };

/* The standard input of the program: a file in memory, so that this process need not wait for a
 * program that does not read. -1: memory is exhausted. */
static int stdin_of(const char *body)
{
    int fd = memfd_create("grapnel-alert", MFD_CLOEXEC);
    size_t n = strlen(body);

    if (fd >= 0 &&
        (write(fd, body, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void add_env(char **env, int *n, const char *name, const char *value)
{
    if (value && *n < ENV_MAX - 1)
        env[(*n)++] = gr_printf("%s=%s", name, value);
}

static void fill_env(char **env, const struct message *m)
{
    static const char *const kept[] = {"PATH", "HOME", "LANG", "TZ"};
    int n = 0;

    for (size_t i = 0; i < COUNT_OF(kept); i++)
        add_env(env, &n, kept[i], getenv(kept[i]));
    add_env(env, &n, "GRAPNEL_ID", m->id);
    add_env(env, &n, "GRAPNEL_ALERTS", m->alerts);
    add_env(env, &n, "GRAPNEL_SEVERITY", m->severity);
    add_env(env, &n, "GRAPNEL_STATE", m->state);
    add_env(env, &n, "GRAPNEL_TEXT", m->subject);
}

static int spawn(struct command *c, const struct notifier *how, char **env,
                 int in)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    char **words = gr_alloc((how->exec.count + 1) * sizeof *words);
    int rc;

    for (size_t i = 0; i < how->exec.count; i++)
        words[i] = how->exec.items[i];
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* which this process ignores */
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none); /* the loop blocks signals */
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    rc = posix_spawn(&c->pid, words[0], &files, &attr, words, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    free(words);
    return rc;
}

bool command_start(struct command *c, const struct notifier *how,
                   const struct message *m, char why[200])
{
    char *env[ENV_MAX] = {NULL};
    int in = stdin_of(m->body), rc = errno;

    c->due_ms = mono_ms() + how->timeout_ms;
    if (in >= 0) {
        fill_env(env, m);
        rc = spawn(c, how, env, in);
        close(in);
    }
    for (int i = 0; i < ENV_MAX; i++)
        free(env[i]);
    if (rc == 0)
        return true;
    c->pid = 0;
    snprintf(why, 200, "cannot run %.100s: %s", how->exec.items[0],
             strerror(rc));
    return false;
}

void command_kill(struct command *c)
{
    if (c->pid <= 0)
        return;
    kill(-c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    c->pid = 0;
}

bool command_ended(struct command *c, int64_t mono_now_ms, bool *ok,
                   char why[200])
{
    int status = 0;
    pid_t pid = waitpid(c->pid, &status, WNOHANG);

    if (pid == 0 && mono_now_ms >= c->due_ms) {
        command_kill(c);
        snprintf(why, 200, "it took longer than `timeout` and was killed");
        return true;
    }
    if (pid == 0)
        return false;
    *ok = pid == c->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (pid == c->pid && WIFSIGNALED(status))
        snprintf(why, 200, "it was ended by signal %d", WTERMSIG(status));
    else if (!*ok)
        snprintf(why, 200, "it exited with %d", WEXITSTATUS(status));
    c->pid = 0;
    return true;
}
