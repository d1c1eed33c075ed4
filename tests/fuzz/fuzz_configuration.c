/* fuzz_configuration: a configuration file. It is read whole, or each fault of it
 * is told with the file's name; what is printed of a good one can be read. */
#include "config.h"
#include "fuzz.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/grapnel-fuzz-XXXXXX";

static void write_file(const char *name, const uint8_t *data, size_t n)
{
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    fuzz_check(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    close(fd);
}

static void leave(void)
{
    unlink("fuzz.yaml");
    unlink("a.secret");
    if (chdir("/") == 0)
        rmdir(folder);
}

static void enter(void)
{
    static bool entered;

    if (entered)
        return;
    entered = true;
    fuzz_check(mkdtemp(folder) && chdir(folder) == 0);
    write_file("a.secret", (const uint8_t *)"whsec_c2VjcmV0c2VjcmV0c2VjcmV0\n",
               31);
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct settings *s;
    struct buf errors;

    /* A path of the input must not lead to a device that never ends. */
    if (n > 20000 || memmem(data, n, "/dev", 4) || memmem(data, n, "/proc", 5))
        return 0;
    enter();
    write_file("fuzz.yaml", data, n);
    buf_init(&errors, 8 << 20);
    s = settings_load("fuzz.yaml", &errors);
    if (s) {
        struct buf out;

        buf_init(&out, 8 << 20);
        settings_print(s, &out);
        fuzz_check(!out.failed);
        buf_fini(&out);
    } else {
        fuzz_check(errors.len > 0);
    }
    settings_free(s);
    buf_fini(&errors);
    return 0;
}
