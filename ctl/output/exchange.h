/* exchange: prints the headers and the body of a request or a response. Text from clients and
 * endpoints cannot control the terminal. For commands. */
#ifndef CTL_EXCHANGE_H
#define CTL_EXCHANGE_H

#include "ctl.h"

/* A line "NAME: VALUE" for each pair of [[name, value]…]. A null value is one that no process
 * stores. */
void exchange_headers(const json_t *headers, const char *mark);
/* The lines of the headers as a server sent them; empty ones are left out. */
void exchange_header_lines(const char *text, const char *mark);
/* The lines of a body, or their number of bytes if they are not UTF-8: at most `max` bytes, then
 * how many more there are. */
void exchange_body(struct bytes body, const char *mark, size_t max);
/* A JSON string as bytes; "" for another value. Borrowed. */
struct bytes exchange_bytes(const json_t *text);
/* The bytes unchanged, to standard output; to a terminal only harmless text. Returns the exit
 * code. */
int exchange_raw(struct bytes body);

#endif
