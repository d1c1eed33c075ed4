/* tap: the bytes that libmicrohttpd reads, as they came.
 *
 * It has no hook for them. It reads with recv(2), as the dynamic linker finds it;
 * so tap.c defines recv(), which reads, and shows what it has read while
 * libmicrohttpd runs (in this thread). Everybody else's recv() is as ever. Were a
 * library to read in another way, no bytes would be shown, and http.c would
 * refuse each chunked request, at the first test. */
#ifndef INGRESS_TAP_H
#define INGRESS_TAP_H

#include <stddef.h>

typedef void tap_fn(void *self, int fd, const char *p, size_t n);

/* From here to tap_close(), in this thread, `show` gets what is read. */
void tap_open(tap_fn *show, void *self);
void tap_close(void);

#endif
