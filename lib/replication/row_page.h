/* row_page: reads the row `replicated` from the image of its page, without SQLite: in the middle of a write-ahead log the other pages of the file may be
 * newer. Pure.
 * Source of the format: https://www.sqlite.org/fileformat2.html#b_tree_pages and #record_format */
#ifndef REPLICATION_ROW_PAGE_H
#define REPLICATION_ROW_PAGE_H

#include "file_view.h"

/* out->page is not set. ROW_UNREADABLE: it is not a leaf page of a table with this row alone. */
void row_page_read(const uint8_t *image, uint32_t page_bytes,
                   struct replicated_row *out);

#endif
