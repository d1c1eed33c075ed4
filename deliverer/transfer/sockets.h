/* sockets: watches all sockets of libcurl with one epoll descriptor, which the loop watches.
 * transfers.h calls it, and libcurl opens and closes the sockets.
 *
 * After each response libcurl stops watching the socket, and watches it again for the next
 * request. Meanwhile the socket of a kept connection stays in the epoll, so that neither
 * costs a system call. If it reports an event meanwhile (mostly that the endpoint closes
 * it), it is removed from the epoll. */
#ifndef DELIVERER_SOCKETS_H
#define DELIVERER_SOCKETS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockets {
    int epoll;
    struct socket {
        uint8_t in_epoll; /* CURL_POLL_IN, …_OUT, both, or 0 */
        bool watched;     /* by libcurl */
    } * of;               /* by descriptor */
    size_t capacity;
    bool
        gives_up; /* the sockets that libcurl closes now: see sockets_on_close() */
};

void sockets_open(struct sockets *s);
void sockets_close(struct sockets *s);
/* libcurl wants these events (CURL_POLL_…). `kept`: the connection is established, and libcurl
 * calls sockets_on_close() at its end. */
void sockets_watch(struct sockets *s, int fd, int what, bool kept);
/* libcurl's CLOSESOCKETFUNCTION. After a plain close() the kernel goes on sending for minutes what
 * the peer has not acknowledged. When the network is back, a request would arrive that was given up
 * long ago, perhaps behind later ones. With `gives_up` the kernel drops it and resets the connection. */
int sockets_on_close(void *self, curl_socket_t fd);
/* Pass all pending events to libcurl. Returns how many sockets had an event. */
int sockets_turn(struct sockets *s, CURLM *multi);

#endif
