/* mhd_response: the responses as libmicrohttpd needs them, each made once where it is always the
 * same. Used by http.c and http_request.c only. */
#ifndef INGRESS_MHD_RESPONSE_H
#define INGRESS_MHD_RESPONSE_H

#include "response.h"
#include <microhttpd.h>

struct request;

struct mhd_responses {
    struct MHD_Response *of[RESPONSE_COUNT];
};

/* Exits 69 when libmicrohttpd has no memory for them. */
void mhd_responses_open(struct mhd_responses *all);
void mhd_responses_close(struct mhd_responses *all);

/* Queue response `a`, or the request's own body with its status and headers. libmicrohttpd has
 * copied an own body when this returns. */
enum MHD_Result mhd_response_queue(struct mhd_responses *all,
                                   struct MHD_Connection *c, struct request *r,
                                   enum response a);
/* Free what a request keeps from one use to the next. */
void mhd_response_forget(struct request *r);

#endif
