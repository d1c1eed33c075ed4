/* sockets: libcurl's, all in one epoll descriptor, which the loop watches.
 *
 * libcurl lets go of a socket after each response and takes it again for the next
 * request; a kept connection stays where it is meanwhile, so that neither costs
 * a system call. What an endpoint says there when nobody has asked (mostly that
 * it closes) takes it out. */
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
};

void sockets_open(struct sockets *s);
void sockets_close(struct sockets *s);
/* libcurl asks to hear of this (CURL_POLL_…). `kept`: its connection is made,
 * and sockets_on_close() will be told of its end. */
void sockets_watch(struct sockets *s, int fd, int what, bool kept);
/* libcurl's CLOSESOCKETFUNCTION. */
int sockets_on_close(void *self, curl_socket_t fd);
/* Give libcurl what has come. Returns how many sockets had something. */
int sockets_turn(struct sockets *s, CURLM *multi);

#endif
