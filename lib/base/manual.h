/* manual: writes a man page (the man(7) macros) from the texts of --help. Pure. The texts
 * are escaped: no line of them is taken for a macro. */
#ifndef BASE_MANUAL_H
#define BASE_MANUAL_H

#include "alloc.h"

/* Writes the head. The date is that of $SOURCE_DATE_EPOCH, or today. */
void manual_begin(struct buf *b, const char *name, int section,
                  const char *summary);
void manual_section(struct buf *b, const char *title);    /* .SH */
void manual_subsection(struct buf *b, const char *title); /* .SS */
/* Writes paragraphs; line ends of the text have no meaning. */
void manual_text(struct buf *b, const char *text);
/* Writes an entry of a list: the word in bold, its value in italics (NULL: none). */
void manual_entry(struct buf *b, const char *word, const char *value,
                  const char *text);
/* Writes lines as on a terminal, without two spaces of their indentation. */
void manual_lines(struct buf *b, const char *lines);
/* Writes "NAME OPTIONS…", the name in bold. */
void manual_usage(struct buf *b, const char *name, const char *rest);

#endif
