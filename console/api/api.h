/* api: the management API over HTTP, at /api/v1. The console translates each request to the
 * control protocol of the processes and owns none of what they have.
 *
 * It never waits for a process: a request's connection is suspended meanwhile, and each request
 * has a response within 5 s (60 s for a command that replies when long work has ended). Used from
 * the loop's thread only; a crash loses the requests in progress, which the processes may have
 * handled. docs/API.md is for its users. */
#ifndef CONSOLE_API_H
#define CONSOLE_API_H

#include "daemon.h"
#include "web.h"

struct api;
struct live;

/* `live`: for GET /stream. */
struct api *api_open(struct daemon *daemon, struct live *live);
/* After web_close(). */
void api_close(struct api *a);
int api_fd(const struct api *a); /* for the loop */
/* Reads replies of processes, and goes on with the requests that waited for them. Returns how
 * long the loop may sleep, in ms; -1: until a descriptor is ready. */
int api_work(struct api *a);

/* Whether the path belongs to the API. */
bool api_has(const char *path);
/* Takes a complete request; see web.h. */
void api_begin(struct api *a, struct web_request *w);
/* The request is over: its response was sent, or its client has gone. */
void api_end(struct api *a, struct web_request *w);

#endif
