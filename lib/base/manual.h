/* manual: writes a man page (the man(7) macros) from the texts of --help. Pure. The texts
 * are escaped: no line of them is taken for a macro. */
#ifndef BASE_MANUAL_H
#define BASE_MANUAL_H

#include "alloc.h"

/* The head. The date is $SOURCE_DATE_EPOCH's, else today's. */
void manual_begin(struct buf *b, const char *name, int section,
                  const char *summary);
void manual_section(struct buf *b, const char *title);    /* .SH */
void manual_subsection(struct buf *b, const char *title); /* .SS */
/* A paragraph, filled anew; the text's own line ends mean nothing. */
void manual_text(struct buf *b, const char *text);
/* An entry of a list: the word in bold, its value in italics (or NULL). */
void manual_entry(struct buf *b, const char *word, const char *value,
                  const char *text);
/* Lines as they are, as on a terminal. Two spaces of indentation are taken off. */
void manual_lines(struct buf *b, const char *lines);
/* "NAME OPTIONS…": the first in bold. */
void manual_usage(struct buf *b, const char *name, const char *rest);

#endif
