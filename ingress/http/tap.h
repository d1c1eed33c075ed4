/* tap: shows the bytes that libmicrohttpd reads, as they came.
 *
 * libmicrohttpd has no callback for them. It reads with recv(2), which the dynamic linker
 * resolves; so tap.c defines recv(), which reads and, while libmicrohttpd runs (in this
 * thread), shows what it has read. For all others recv() works as before. If a version of
 * libmicrohttpd read in another way, no bytes would be shown, and http.c would refuse each
 * chunked request, which tests notice. */
#ifndef INGRESS_TAP_H
#define INGRESS_TAP_H

#include <stddef.h>

typedef void tap_fn(void *self, int fd, const char *p, size_t n);

/* From here to tap_close(), in this thread, `show` is called with what is read. */
void tap_open(tap_fn *show, void *self);
void tap_close(void);

#endif
