/* large_turn: slices of the form of a turn. A slice: its number (8 bytes), then bytes of the form. */
#include "large_turn.h"
#include "le64.h"
#include <stdio.h>

enum {
    HEAD_BYTES = 8,
    SLICE_BYTES = SEAL_ONE_PART_BYTES - HEAD_BYTES, /* of the form */
    ROW_BYTES = 8,                                  /* shorter than any form */
};

int64_t large_turn_slices(size_t form_bytes)
{
    return (int64_t)((form_bytes + SLICE_BYTES - 1) / SLICE_BYTES);
}

void large_turn_seal(struct sealer *s, const struct seal_about *about,
                     struct bytes form, int64_t slice, struct buf *sealed)
{
    struct seal_about this = *about;
    size_t at = (size_t)slice * SLICE_BYTES;
    size_t n = form.n - at < SLICE_BYTES ? form.n - at : SLICE_BYTES;
    struct sealed_parts parts;
    struct buf plain;

    this.kind = SEAL_SLICE;
    buf_init(&plain, SEAL_ONE_PART_BYTES);
    put_le64(&plain, (uint64_t)slice);
    buf_put(&plain, (const char *)form.p + at, n);
    sealer_seal(s, &this, (struct bytes){plain.data, plain.len}, &parts);
    if (parts.count != 1)
        die(EXIT_SOFTWARE, "a slice of a turn does not fit into one row");
    buf_reset(sealed);
    buf_put(sealed, parts.parts[0].data, parts.parts[0].len);
    sealed_parts_fini(&parts);
    buf_fini(&plain);
}

gr_rc large_turn_open(struct sealer *s, const struct seal_about *about,
                      int64_t slice, struct bytes sealed, struct buf *form,
                      char why[200])
{
    struct seal_about this = *about;
    struct buf plain;
    gr_rc rc;

    this.kind = SEAL_SLICE;
    buf_init(&plain, SEAL_ONE_PART_BYTES);
    rc = sealer_open_parts(s, &this, &sealed, 1, &plain, why);
    if (rc == GR_OK &&
        (plain.len <= HEAD_BYTES || get_le64(plain.data) != (uint64_t)slice)) {
        snprintf(why, 200, "slice %lld of turn %lld is another one",
                 (long long)slice, (long long)about->n);
        rc = GR_REFUSE;
    }
    if (rc == GR_OK) {
        buf_put(form, plain.data + HEAD_BYTES, plain.len - HEAD_BYTES);
        if (form->failed) {
            snprintf(why, 200, "turn %lld is longer than %zu bytes",
                     (long long)about->n, form->max);
            rc = GR_REFUSE;
        }
    }
    buf_fini(&plain);
    return rc;
}

void large_turn_put_row(size_t form_bytes, struct buf *row)
{
    put_le64(row, form_bytes);
}

size_t large_turn_bytes(struct bytes row)
{
    return row.n == ROW_BYTES ? (size_t)get_le64(row.p) : 0;
}
