/* changed_body: the bodies that may have been signed, if a proxy or a framework changed the body
 * on its way: white space, line ends, character encoding, JSON that was written anew. Pure. */
#ifndef INGRESS_CHANGED_BODY_H
#define INGRESS_CHANGED_BODY_H

#include "alloc.h"
#include "reject_mistakes.h"

/* Writes the candidate number `i`, from 0, for the body that came into `out`, which is emptied
 * first; it must hold at least twice the body and 64 bytes. Returns how the signed body differed, as a phrase that
 * follows "the body that was signed" (static), and the mistake. "": this one does not apply, or
 * is the body itself. NULL: there are no more. */
const char *changed_body(int i, struct bytes body, struct buf *out,
                         enum reject_mistake *mistake);

#endif
