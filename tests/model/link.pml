/*
 * link.pml: the durable link, one link. Specification of proto/links.[ch].
 *
 * A row is one byte: the epoch that wrote it and its value (EPOCH, VAL). Epochs are
 * counted here, 64 random bits in the product; all that is used of them is that
 * no two starts share one. A batch holds at most two rows. `epochs` carries the
 * epoch of each row, where the product sends (epoch, first number). An older copy is
 * at first the empty store, so a restore is also a lost disk and first contact.
 *
 * The receiver takes rows (taken) and commits its cursor (last) then or later: the
 * deliverer's held cursor. One that commits each turn never waits.
 *
 * -DOLDER: the sender may also be restored from a copy older by one row, and later
 * from the newer one.
 * -DPLAIN: batches of one row, each turn is committed; so that N=4 can be searched.
 *
 * Faults: C kills of either end, with or without the frames on their way; L lost
 * frames or timers too early; R restores of either end from a copy made at any
 * time. -DLATE: frames of a dead process (T at most) are read after those of its
 * successor, as an inbox is read fairly over its pipes.
 *
 * Checked
 *   order    what is taken is the next of the log, once: by numbers alone if
 *            nothing was restored
 *   once     no value takes effect twice, restored or not (by its identity)
 *   alarm    nothing is counted lost, and the sender reports no end that was set
 *            back, if nothing was restored
 *   rest     when nothing more can happen both ends are at the log's end, and
 *            each row was applied or counted
 *   ends     every run comes to rest (-DENDS: no cycle; all faults are counted)
 *
 * Not here: unprocessable messages (local to the receiver), backoff and the
 * window's size (time and bytes). Any acknowledged prefix may be forgotten at any
 * time, which is every retention there is.
 *
 * `run` reads these; README.md has what the mutants show.
 *
 * RUN kills_2 -DC=2 -DL=2
 * RUN late -DLATE -DENDS
 * RUN late_kills_2 -DLATE -DN=2 -DC=2
 * RUN late_twice -DLATE -DN=2 -DT=2
 * RUN restored -DN=2 -DR=1 -DENDS
 * RUN restored_3_rows -DR=1 -DC=0
 * RUN restored_twice -DN=2 -DR=2 -DC=0 -DL=0
 * RUN restored_twice_3_rows -DPLAIN -DR=2 -DC=0 -DL=0
 * LONG restored_3_rows_kills -DR=1
 * LONG restored_late -DN=2 -DR=1 -DLATE
 * LONG restored_twice_kills -DN=2 -DR=2
 * LONG restored_twice_4_rows -DPLAIN -DN=4 -DR=2 -DC=0 -DL=0
 * LONG restored_older_newer -DOLDER -DR=2 -DC=0 -DL=0
 *
 * MUTANT M_MIXED_EPOCHS -O1 -DREVERSE -DT_REVERSE -DOLDER -DR=2 -DC=0 -DL=0
 * MUTANT M_JUMP_ON_BATCH -DREVERSE -DT_REVERSE -DPLAIN -DN=4 -DR=2 -DC=0 -DL=0
 * MUTANT M_BELIEVE_ONCE -DLATE -DN=2 -DC=2
 * MUTANT M_BELIEVE_TWICE -DLATE -DN=2 -DT=2
 * MUTANT M_CURSOR_NOW -DLATE -DN=2 -DC=2
 * MUTANT M_NO_QUESTION -DN=2 -DR=1 -DENDS
 * MUTANT M_COMPARE_FIRST -DT_REVERSE -DR=1
 * MUTANT M_ACCEPT_GAP
 * MUTANT M_ACK_BEFORE_COMMIT
 * MUTANT M_NO_DEDUPE
 * MUTANT M_NO_PROBE
 * MUTANT M_PRUNE_ON_SEND
 * MUTANT M_NO_COUNT -DN=2 -DR=1
 * MUTANT M_NO_IDLE -DN=2 -DR=1
 * MUTANT M_EPOCH_KEPT -DN=2 -DR=1
 * MUTANT M_SILENT_START -DN=2 -DR=1
 * MUTANT M_NUMBER_ONLY -DPLAIN -DR=2 -DC=0 -DL=0
 * MUTANT M_NO_PREV_EPOCH -DPLAIN -DR=2 -DC=0 -DL=0
 * MUTANT M_NO_IDENTITY -DPLAIN -DR=2 -DC=0 -DL=0
 * MUTANT M_NO_GAP -DENDS
 * MUTANT M_BACK_FOR_EVER -DENDS
 * MUTANT M_IGNORE_BEHIND -DN=2 -DR=1 -DC=0 -DENDS
 * MUTANT M_NO_EPOCHS -DN=2 -DR=1 -DC=0 -DENDS
 * MUTANT M_NO_FLOOR -DN=2 -DR=1 -DC=0 -DENDS
 * MUTANT M_BEYOND_END -DN=2 -DR=1 -DENDS
 * MUTANT M_TAKEN_KEPT -DN=2 -DR=1 -DENDS
 * MUTANT M_ACK_CURSOR_ONLY -DN=2 -DR=1 -DENDS
 */
#ifndef N
#define N 3 /* rows written in all, at most V */
#endif
#ifndef R
#define R 0 /* restores */
#endif
#ifndef C
#define C 1 /* kills */
#endif
#ifndef L
#define L 1 /* frames lost, timers early */
#endif
#ifndef T
#define T 1 /* frames of a dead process that are read late */
#endif
#define W 2 /* window */
#define V 4

#define ROW(r, v) (((r) << 4) + (v))
#define EPOCH(x)    ((x) >> 4)
#define VAL(x)    ((x) & 15)
#define BIT(v)    (1 << (v))

mtype = { BATCH, EPOCHS };
typedef log { byte at[5] }

/* The sender: on disk, an older copy of that, in memory. */
byte top, cur, low = 1; /* last number, cursor, lowest number still held */
log s;
byte c_top, c_cur, c_low = 1;
log c_s;
byte me = 1, sent, back; /* epoch; last number sent; the gap rewound for */
/* Its question, and whether it awaits the answer since a cursor contradicted it, with
 * the cursor of that moment. No start of a sender asks as another did, so one counter
 * does for all of them. */
byte question, doubted;
bool doubt;

/* The receiver: on disk, an older copy, in memory. */
byte last;
log r; /* what is beyond `last` is in memory only */
byte app; /* effects, a bit for each value */
byte c_last;
log c_r;
byte c_app;
byte taken;
byte heard; /* the question of the last batch that it got */

/* BATCH: first, count, prev epoch, rows, question, floor   EPOCHS: next, floor, -, rows */
chan d = [2] of { mtype, byte, byte, byte, byte, byte, byte, byte };
/* cursor: n, epoch; taken: n, epoch; gap; the question that it answers */
chan a = [2] of { byte, byte, byte, byte, bool, byte };
#ifdef LATE
chan late_d = [1] of { mtype, byte, byte, byte, byte, byte, byte, byte };
chan late_a = [T] of { byte, byte, byte, byte, bool, byte };
#endif

/* Ghosts. */
byte epochs = 1, vals, kills, losses, spent;
byte counted; /* lost aloud, a bit for each value */
bool restored, s_copy, r_copy, resting;

/* ---- mutants: each drops one rule ---- */
#ifdef M_NUMBER_ONLY /* cursors and rows have no epoch */
#define SAME(x, y) true
#else
#define SAME(x, y) ((x) == (y))
#endif
#if defined(M_NO_PREV_EPOCH) /* a batch does not name the epoch before it */
#define SAME_PREV(x, y) true
#else
#define SAME_PREV(x, y) SAME(x, y)
#endif
#ifdef M_COMPARE_FIRST /* compared is the row before the batch only */
#define SAME_TAKEN true
#else
#define SAME_TAKEN (taken < f || taken >= f + n || SAME(EPOCH(x), EPOCH(r.at[taken])))
#endif
#define AGREES \
  ((f - 1 > taken || SAME_PREV(p, EPOCH(r.at[f - 1]))) && SAME_TAKEN)
#ifdef M_ACCEPT_GAP /* what comes is taken, whatever is missing before it */
#define GAP false
#else
#define GAP (f > taken + 1)
#endif
#ifdef M_NO_DEDUPE /* numbers that it has are applied again */
#define HAS(k) false
#else
#define HAS(k) (k <= taken)
#endif
#ifdef M_NO_IDENTITY /* only numbers keep a message from taking effect twice */
#define ONCE(v) assert(!(app & BIT(v)))
#else
#define ONCE(v) skip
#endif
#ifdef M_ACK_BEFORE_COMMIT /* acknowledged is what was taken */
#define CURSOR taken
#else
#define CURSOR last
#endif
#ifdef M_ACK_CURSOR_ONLY /* an answer does not say what was taken beyond the cursor */
#define TAKEN CURSOR
#else
#define TAKEN taken
#endif
#ifdef M_PRUNE_ON_SEND /* a row is forgotten when it was sent */
#define PRUNABLE sent
#else
#define PRUNABLE cur
#endif
#ifdef M_IGNORE_BEHIND /* a cursor below the cursor is taken for an old frame */
#define BEHIND false
#else
#define BEHIND (n < cur)
#endif
#ifdef M_BEYOND_END /* only "I have more than you" is a disagreement */
#define MINE(n, q) (n <= top)
#else
#define MINE(n, q) (n <= top && SAME(EPOCH(s.at[n]), q))
#endif
#ifdef M_EPOCH_KEPT /* the epoch belongs to the store, not to the start */
#define NEW_EPOCH skip
#else
#define NEW_EPOCH epochs++; me = epochs
#endif
#ifdef M_MIXED_EPOCHS /* a batch goes on over the end of an epoch */
#define ONE_EPOCH true
#else
#define ONE_EPOCH (EPOCH(s.at[sent + 1]) == EPOCH(s.at[sent + 2]))
#endif
#ifdef M_NO_GAP /* the answer does not say that a batch was dropped */
#define DROPPED false
#else
#define DROPPED h
#endif
#ifdef M_BACK_FOR_EVER /* "once for each number" is not forgotten in silence */
#define REOPEN skip
#else
#define REOPEN back = 0
#endif
#ifdef M_NO_EPOCHS /* in a disagreement nobody says anything */
#define DISAGREE skip
#else
#define DISAGREE send_epochs(low)
#endif
#ifdef M_SILENT_START /* an empty receiver begins where the sender is, uncounted */
#define COUNT(v) if :: first_contact :: else -> counted = counted | BIT(v) fi
#elif defined(M_NO_COUNT) /* what nobody holds is passed over, uncounted */
#define COUNT(v) skip
#else
#define COUNT(v) assert(restored); counted = counted | BIT(v)
#endif

inline copy_log(to, from)
{
  to.at[1] = from.at[1]; to.at[2] = from.at[2];
  to.at[3] = from.at[3]; to.at[4] = from.at[4]
}
inline wipe(x) { x.at[1] = 0; x.at[2] = 0; x.at[3] = 0; x.at[4] = 0 }
inline clear() { m = 0; f = 0; n = 0; p = 0; x = 0; y = 0; z = 0; w = 0 }

/* When an end dies, frames on their way to it are gone, or their head; those on
 * their way from it stay, or go; or their head waits in the dead one's pipe. */
inline die(sender)
{
  if
  :: true
  :: nempty(d) -> d?_,_,_,_,_,_,_,_
  :: len(d) == 2 -> d?_,_,_,_,_,_,_,_; d?_,_,_,_,_,_,_,_
#ifdef LATE
  :: sender && nempty(d) && empty(late_d) ->
     d?m,f,n,p,x,y,z,w; late_d!m,f,n,p,x,y,z,w
#endif
  fi;
  if
  :: true
  :: nempty(a) -> do :: nempty(a) -> a?_,_,_,_,_,_ :: empty(a) -> break od
#ifdef LATE
  :: !sender && nempty(a) && empty(late_a) ->
     a?f,n,p,x,h,y; late_a!f,n,p,x,h,y; h = 0
#if T > 1
  :: !sender && len(a) == 2 && empty(late_a) ->
     a?f,n,p,x,h,y; late_a!f,n,p,x,h,y;
     a?f,n,p,x,h,y; late_a!f,n,p,x,h,y; h = 0
#endif
#endif
  fi;
  clear()
}

/* ------------------------------------------------------------------ sender */

inline send_epochs(floor) { d!EPOCHS,top + 1,floor,0,s.at[1],s.at[2],s.at[3],s.at[4] }

#ifdef M_JUMP_ON_BATCH /* a batch at the floor moves any receiver there */
#define TO_FLOOR sent = low - 1
#elif defined(M_NO_FLOOR) /* nobody says that rows are held no more */
#define TO_FLOOR skip
#else
#define TO_FLOOR send_epochs(low)
#endif

#define ASK d!BATCH,sent + 1,0,EPOCH(s.at[sent]),0,0,question,low

#ifdef M_NO_QUESTION /* in doubt it waits for what it will hear */
#define QUESTION skip
#else
#define QUESTION ASK
#endif

/* What contradicts the log or the cursor is believed only in answer to a question
 * asked after the first contradiction, judged by the cursor of then. */
#define CONTRADICTS (!MINE(n, q) || !MINE(k, g) || BEHIND)
#ifdef M_CURSOR_NOW /* judged by the cursor of now */
#define BELOW (n < cur)
#else
#define BELOW (n < doubted)
#endif
#if defined(M_BELIEVE_ONCE) /* believed at once */
#define PROVEN true
#elif defined(M_BELIEVE_TWICE) /* believed when it is sent again */
#define PROVEN doubt
#else
#define PROVEN (doubt && v == question && (!MINE(n, q) || !MINE(k, g) || BELOW))
#endif

/* Its cursor is (n, q), it has taken (k, g), h: it saw a gap, v: the question that
 * it answers. */
inline heed()
{
  if
  :: CONTRADICTS && !PROVEN ->
     if
     :: !doubt || v == question -> doubt = 1; question++; doubted = cur
     :: doubt && v != question
     fi;
     QUESTION
  :: CONTRADICTS && PROVEN ->
     assert(restored); /* alarm */
     doubt = 0; doubted = 0;
     if
     :: !MINE(n, q) || !MINE(k, g) -> DISAGREE
#ifndef M_JUMP_ON_BATCH
     :: MINE(n, q) && MINE(k, g) && k == 0 -> send_epochs(cur + 1) /* no cursor at all */
#endif
     :: MINE(n, q) && MINE(k, g) -> /* back as far as rows are held and not taken */
        cur = (n + 1 < low -> low - 1 : n);
        sent = (k > cur -> k : cur); back = 0;
        if :: k + 1 < low -> TO_FLOOR :: else fi
     fi
  :: !CONTRADICTS ->
     if :: v == question -> doubt = 0; doubted = 0 :: else fi;
     if :: n > cur -> cur = n; back = 0 :: else fi;
     if :: sent < n -> sent = n :: else fi;
     if
     :: k + 1 < low -> TO_FLOOR
     :: k + 1 >= low && DROPPED && k >= cur && k < sent && back != k + 1 ->
        sent = k; back = k + 1
     :: else
     fi
  fi;
  n = 0; q = 0; k = 0; g = 0; h = 0; v = 0
}

inline start_sender() { NEW_EPOCH; sent = cur; back = 0; doubt = 0; doubted = 0; die(true) }

active proctype Sender()
{
  mtype m; byte f, n, p, x, y, z, w, q, k, g, v; bool h;
end:
  do
  :: d_step { vals < N -> vals++; top++; s.at[top] = ROW(me, vals) }
  :: atomic { nfull(d) && sent < top && sent < cur + W && sent + 1 >= low ->
       d!BATCH,sent + 1,1,EPOCH(s.at[sent]),s.at[sent + 1],0,question,low; sent++ }
#ifndef PLAIN
  :: atomic { nfull(d) && sent + 1 < top && sent + 1 < cur + W &&
       sent + 1 >= low && ONE_EPOCH ->
       d!BATCH,sent + 1,2,EPOCH(s.at[sent]),s.at[sent + 1],s.at[sent + 2],question,low;
       sent = sent + 2 }
#endif
  /* A `epochs` that finds no space is owed, and leaves before any batch: here the
   * cursor is not read until there is space, as else batches could starve it. */
  :: atomic { nempty(a) && nfull(d) -> a?n,q,k,g,h,v; heed() }
#ifdef LATE
  :: atomic { nempty(late_a) && nfull(d) -> late_a?n,q,k,g,h,v; heed() }
#endif
#ifndef M_NO_PROBE
  /* Silence: it asks, behind all that it sent. Then the same, too early. */
  :: atomic { sent > cur && empty(d) && empty(a) && taken == last ->
       REOPEN; ASK }
  :: atomic { sent > cur && nfull(d) && losses < L -> losses++; REOPEN; ASK }
#endif
  :: d_step { low <= PRUNABLE -> low = PRUNABLE + 1 }
  :: atomic { kills < C -> kills++; start_sender() }
  :: d_step { !s_copy && spent < R && top > 0 ->
       s_copy = 1; c_top = top; c_cur = cur; c_low = low; copy_log(c_s, s) }
  :: atomic { spent < R ->
       spent++; restored = 1;
       if /* the copy; or nothing, and the copy comes later */
       :: true -> top = c_top; cur = c_cur; low = c_low; copy_log(s, c_s)
       :: s_copy -> top = 0; cur = 0; low = 1; wipe(s)
#ifdef OLDER
       :: c_top > 1 && c_low == 1 ->
          top = c_top - 1; cur = 0; low = 1; copy_log(s, c_s); s.at[c_top] = 0
#endif
       fi;
       start_sender() }
  od
}

/* ---------------------------------------------------------------- receiver */

inline answer(gap)
{
  if
  :: nfull(a) -> a!CURSOR,EPOCH(r.at[CURSOR]),TAKEN,EPOCH(r.at[TAKEN]),gap,heard
  :: full(a)
  fi
}

inline settle() /* one commit: the cursor, and all effects up to it */
{
  do
  :: last < taken ->
     last++;
     ONCE(VAL(r.at[last])); /* once */
     app = app | BIT(VAL(r.at[last]));
     counted = counted & ~BIT(VAL(r.at[last]))
  :: last >= taken -> break
  od
}

inline accept(row, num)
{
  if
  :: HAS(num)
  :: !HAS(num) ->
     assert(restored || VAL(row) == taken + 1); /* order */
     taken = num; r.at[taken] = row
  fi
}

/* Back to the last row that both have, then on to the floor, counting aloud. */
inline agree()
{
  t.at[1] = x; t.at[2] = y; t.at[3] = z; t.at[4] = w;
  first_contact = (taken == 0);
  j = (taken < f - 1 -> taken : f - 1);
  do
  :: j > 0 && !SAME(EPOCH(r.at[j]), EPOCH(t.at[j])) -> j--
  :: j == 0 || SAME(EPOCH(r.at[j]), EPOCH(t.at[j])) -> break
  od;
#ifdef M_TAKEN_KEPT /* a rewind moves the cursor, not what was taken */
  if :: last > j -> last = j :: else fi;
#else
  do :: taken > j -> r.at[taken] = 0; taken-- :: taken <= j -> break od;
  if :: last > j -> last = j :: else fi;
#endif
  if
  :: taken + 1 < n ->
     settle();
     do
     :: taken + 1 < n ->
        taken++; r.at[taken] = t.at[taken];
        COUNT(VAL(t.at[taken])) /* alarm */
     :: taken + 1 >= n -> break
     od;
     last = taken
  :: else
  fi;
  wipe(t); j = 0; first_contact = 0
}

inline get()
{
#ifdef M_JUMP_ON_BATCH
  if
  :: m == BATCH && f == w && f > taken + 1 ->
     settle();
     do
     :: taken + 1 < f ->
        taken++;
        r.at[taken] = (taken + 1 == f -> ROW(p, VAL(s.at[taken])) : s.at[taken]);
        COUNT(VAL(s.at[taken])) /* alarm */
     :: taken + 1 >= f -> break
     od;
     last = taken
  :: else
  fi;
#endif
  if :: m == BATCH -> heard = z :: else fi;
  if
  :: m == EPOCHS -> agree(); answer(0)
  :: m == BATCH && GAP -> answer(1)
  :: m == BATCH && !GAP && !AGREES -> answer(0)
  :: m == BATCH && !GAP && AGREES ->
#ifdef M_MIXED_EPOCHS /* one epoch for all rows of a batch */
     if :: n == 2 -> y = ROW(EPOCH(x), VAL(y)) :: else fi;
#endif
     if :: n >= 1 -> accept(x, f) :: else fi;
     if :: n == 2 -> accept(y, f + 1) :: else fi;
#ifdef PLAIN
     settle();
#else
     if :: settle() :: taken > last fi;
#endif
     answer(0)
  fi;
  clear()
}

inline start_receiver()
{
  do :: taken > last -> r.at[taken] = 0; taken-- :: taken <= last -> break od;
  heard = 0;
  die(false)
}

active proctype Receiver()
{
  mtype m; byte f, n, p, x, y, z, w, j; bool h, first_contact; log t;
end:
  do
  :: atomic { nempty(d) -> d?m,f,n,p,x,y,z,w; get() }
#ifdef LATE
  :: atomic { nempty(late_d) -> late_d?m,f,n,p,x,y,z,w; get() }
#endif
  :: atomic { taken > last -> settle(); answer(0) }
#ifndef M_NO_IDLE
  /* It says where it is, at its start and on a timer. */
  :: atomic { empty(d) && empty(a) && taken == last &&
       (last != cur || EPOCH(r.at[last]) != EPOCH(s.at[last])) -> answer(0) }
#endif
  :: atomic { kills < C -> kills++; start_receiver() }
  :: atomic { nempty(d) && losses < L -> losses++; d?_,_,_,_,_,_,_,_ }
  :: atomic { nempty(a) && losses < L -> losses++; a?_,_,_,_,_,_ }
  :: d_step { !r_copy && spent < R && last > 0 ->
       r_copy = 1; c_last = last; copy_log(c_r, r); c_app = app }
  :: atomic { spent < R ->
       spent++; restored = 1;
       if
       :: true -> last = c_last; copy_log(r, c_r); app = c_app
       :: r_copy -> last = 0; wipe(r); app = 0
       fi;
       taken = last;
       start_receiver() }
  od
}

#define HELD(k) (k > top || ((app | counted) & BIT(VAL(s.at[k]))))

active proctype Judge()
{
  timeout ->
  assert(cur == top && last == top && taken == top); /* rest */
  assert(SAME(EPOCH(r.at[last]), EPOCH(s.at[last]))); /* rest */
  assert(HELD(1) && HELD(2) && HELD(3) && HELD(4)); /* rest */
  resting = 1
}

#ifdef ENDS
ltl ends { <> resting }
#endif
