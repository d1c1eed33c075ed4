/* relay_uri: reads the URI of a MariaDB or MySQL database of a relay:
 * mysql://USER@HOST:PORT/DATABASE?socket=PATH&ssl_ca=FILE. Of these, only the database is needed. */
#ifndef SETTINGS_RELAY_URI_H
#define SETTINGS_RELAY_URI_H

/* A part that the URI does not have is NULL, or 0. */
struct relay_uri {
    char *user, *host, *database;
    char *socket;
    char *ssl_ca; /* certificates of those who may sign the server's */
    unsigned port;
};

/* Returns NULL, or what is wrong, as the end of a sentence. Call relay_uri_fini() in both cases. */
const char *relay_uri_parse(struct relay_uri *u, const char *text);
void relay_uri_fini(struct relay_uri *u);

#endif
