/* api_client: asks the HTTP API of a console, this machine's or another's. For commands. One
 * request at a time; a request that may be interrupted ends when `*stop` is not 0. */
#ifndef CTL_API_CLIENT_H
#define CTL_API_CLIENT_H

#include "ctl.h"
#include <curl/curl.h>
#include <signal.h>

struct api_client {
    CURL *curl;
    char *base;                        /* http://127.0.0.1:8081/api/v1 */
    char *authorization;               /* the header */
    const char *ca;                    /* a file; NULL: the system's */
    const volatile sig_atomic_t *stop; /* borrowed */
    char why[400];                     /* why the last request failed */
    char code[40];                     /* of its error response; "": none */
    int retry_after_s;
};

struct api_call {
    const char *method;
    char *path;      /* below `base`; taken over */
    json_t *body;    /* taken over; NULL: none */
    const char *key; /* Idempotency-Key; NULL: none */
    bool if_match;   /* whatever version it has */
    int timeout_ms;
    bool interruptible;
};

/* `token` is wiped by api_client_close(). */
void api_client_open(struct api_client *a, const char *console,
                     const char *token, const char *ca,
                     const volatile sig_atomic_t *stop);
void api_client_close(struct api_client *a);
/* Returns the HTTP status; 0: no response, or `*stop`. *reply (the caller's): the JSON of a 200;
 * else NULL, and a->why says why. */
long api_client_ask(struct api_client *a, struct api_call call, json_t **reply);

/* For further requests with a handle of its own: collects a response, up to the buffer's limit,
 * in a struct buf. */
size_t api_client_collect(char *data, size_t size, size_t n, void *buf);
/* Progress callback of libcurl: aborts when the sig_atomic_t at `stop` is not 0. */
int api_client_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c,
                        curl_off_t d);

#endif
