/*
 * grants.pml: grants and the lease. Specification of sequencer/grants*.c and
 * deliverer/grants*.c. One sequencer, two deliverers, one ordered endpoint, two
 * deliveries of one lane.
 *
 * The durable link is taken as link.pml shows it: in order, once, rows of either end's disk.
 * Tasks that a killed deliverer had only in memory come again over the link; so here
 * they are as if they had been on its disk. Plain frames (heartbeats and their answers)
 * are lost, and overtake each other.
 *
 * Time. A heartbeat's stamp is its number. `over[d]` is the highest stamp whose lease
 * has passed on d's clock. It moves when d's own lease lapses, and the sequencer
 * may end the grants of a silent deliverer only when it covers every stamp that was
 * ever answered and nothing is in flight there: that is LEASE + longest attempt +
 * margin after the last answer, in the clocks' own words. Clock rates are the
 * margin's business, not the model's.
 *
 * Faults, up to F in all: kill of the sequencer; kill of a deliverer, and then
 * possibly: its disk lost, or its end; a lapsed lease; silence; a lost frame; a heartbeat
 * too early; a planned move; SIGTERM; -DREQUEUE: an operator's requeue, and its
 * repetition. Of these kinds only if -DONLY= names them: -DONLY=ABANDON, an operator
 * abandons a delivery; with -DWATCH, GONE, a deliverer loses a delivery by a defect, and
 * ASKED, the watch (sequencer/dispatch/watch.c) asks about one that is not late. All pairs of kinds are too many to search at once; -DF=2 is run with
 * -DONLY=, the pairs that a rule needs.
 *
 * Checked
 *   final    delivered never changes; dead becomes delivered by a late success, or
 *            open by one requeue for each word of the operator
 *   honest   delivered only when the endpoint said 2xx
 *   one out  the lane never has two out
 *   alone    when an attempt begins nothing else of the lane runs or may begin
 *   order    no request for the second before the first is final, and none for the
 *            first after one for the second (but what a requeue sends again)
 *   no loss  when nothing more can happen both are final, dead <=> a dead letter, and
 *            nothing is held anywhere
 *   ends     every run comes to that point (-DENDS)
 *
 * Not here: a deliverer frozen between its look at the clock and its request (nobody
 * can prevent that; the endpoint can, by `grapnel-sequence`), aborting requests in flight at
 * the lease's end (it only shortens the wait), space and windows, several endpoints,
 * older copies of the sequencer's or a deliverer's database, lanes that a dead
 * letter halts (that only holds back).
 *
 * `run` reads these; README.md has what the mutants show.
 *
 * RUN faults_1 -O1 -DENDS
 * RUN requeue -DREQUEUE -DMAX_ATTEMPTS=1
 * RUN requeue_twice -DREQUEUE -DF=2 -DONLY=WORD
 * RUN lapse_silence -O1 -DF=2 -DONLY=LAPSE+SILENCE
 * RUN abandon -DONLY=ABANDON -DENDS
 * RUN abandon_lapse -O1 -DF=2 -DONLY=ABANDON+LAPSE+SILENCE
 * RUN abandon_requeue -DREQUEUE -DF=2 -DONLY=ABANDON+WORD
 * RUN watch -DWATCH -DF=2 -DONLY=GONE+ASKED -DENDS
 * RUN watch_abandon -DWATCH -DF=2 -DONLY=GONE+ABANDON -DMAX_ATTEMPTS=1
 * LONG abandon_kill -DF=2 -DONLY=ABANDON+KILL_D -DMAX_ATTEMPTS=1
 * LONG stop_kill -DENDS -DF=2 -DONLY=STOP+KILL_D -DMAX_ATTEMPTS=1
 * LONG watch_kill -DENDS -DWATCH -DF=2 -DONLY=GONE+KILL_D -DMAX_ATTEMPTS=1
 * LONG move_kill -DF=2 -DONLY=MOVED+KILL_D -DMAX_ATTEMPTS=1
 *
 * MUTANT M_FORGET_REVOKED -DREVERSE -DF=2 -DONLY=STOP+KILL_D -DMAX_ATTEMPTS=1
 * MUTANT M_REVOKE_IN_MEMORY -DREVERSE -DF=2 -DONLY=MOVED+KILL_D -DMAX_ATTEMPTS=1
 * MUTANT M_NO_ATTEMPT_WAIT -DF=2 -DONLY=LAPSE+SILENCE
 * MUTANT M_LAPSE_KEEPS_GRANTS -DF=2 -DONLY=LAPSE+SILENCE
 * MUTANT M_NO_GENERATION -DREQUEUE -DF=2 -DONLY=WORD
 * MUTANT M_REQUEUE_BY_ID -DREQUEUE -DF=2 -DONLY=WORD
 * MUTANT M_NO_REVOKED -DENDS
 * MUTANT M_RETRY_REVOKED -DENDS
 * MUTANT M_ABANDON_FREES -DONLY=ABANDON
 * MUTANT M_RELEASED_IN_ANY_GENERATION -DREQUEUE -DF=2 -DONLY=ABANDON+WORD
 * MUTANT M_NO_WATCH -DWATCH -DF=2 -DONLY=GONE+ASKED
 * MUTANT M_CHECK_OVERTAKES -DWATCH -DF=2 -DONLY=GONE+ASKED
 * MUTANT M_MISSING_OVERTAKES -DWATCH -DF=2 -DONLY=GONE+ASKED
 * MUTANT M_MISSING_OF_ANY_TASK -DWATCH -DF=2 -DONLY=GONE+ASKED
 * MUTANT M_CONFIRM_ANY
 * MUTANT M_DIRECT_DLQ
 * MUTANT M_RELEASED_EARLY
 * MUTANT M_FIRE_EARLY
 * MUTANT M_FORMER_DISK
 * MUTANT M_GRANTED_OF_OTHER_EPOCH
 * MUTANT M_GRANTED_WITHOUT_STAMP -DMAX_ATTEMPTS=1
 * MUTANT M_OWNER_IN_MEMORY
 * MUTANT M_LATE_COUNTS
 * MUTANT M_LEASE_FROM_RECEIPT -DMAX_ATTEMPTS=1
 * MUTANT M_MOVE_NOW
 * MUTANT M_NO_DROP_AGAIN
 * MUTANT M_NO_DROP_WAIT
 * MUTANT M_NO_LEAVING
 * MUTANT M_NO_SILENCE_WAIT
 * MUTANT M_NO_STORE_ID
 * MUTANT M_HEARTBEAT_ACK_OF_OTHER_EPOCH -DMAX_ATTEMPTS=1
 *
 * UNNEEDED M_NO_DROP -O1 -DENDS
 * UNNEEDED M_TASK_AFTER_REVOKE -DMAX_ATTEMPTS=1 -DENDS
 * UNNEEDED M_REVOKED_OF_OTHER_EPOCH -DMAX_ATTEMPTS=1 -DENDS
 */
#ifndef F
#define F 1
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif

/* kinds of faults; -DONLY=LAPSE+SILENCE: of these kinds only */
#define KILL_S  1
#define KILL_D  2
#define STOP    4
#define LAPSE   8
#define SILENCE 16
#define LOSS    32
#define EARLY   64
#define MOVED   128
#define WORD    256
#define DISK    512
#define GONE    1024
#define ASKED   2048
#define ABANDON 4096
#ifndef ONLY
#define ONLY    1023
#endif

/* a delivery */
#define OPEN   0
#define DELIV  1
#define DEAD   2
/* a dead letter */
#define L_NONE      0
#define L_DEAD      1
#define L_REQUEUED  2
#define L_RECOVERED 3
/* what a deliverer has of a delivery */
#define NONE    0
#define WAIT    1 /* queued or scheduled */
#define CHECKED 2 /* looked at the lease; the request is not out */
#define GOT_2XX 3 /* answered, not committed */
#define GOT_NO  4

#define NOBODY 2

mtype = { TASK, REVOKE, DROPPED, DELIVERED, RETRYING, DEAD_END, RELEASED, GRANT_RELEASED,
          HEARTBEAT_ACK, GRANTED, REVOKED, DEAD_LETTER, RECOVERED, CHECK, MISSING };

typedef held { byte ph; byte gr; byte n } /* phase, grant, attempts made */
typedef pair { held at[2] }

/* The sequencer: on disk, in memory. */
byte st[2], att[2], generation[2];
byte outg[2];                    /* the grant under which it is out */
#ifdef WATCH
byte task[2];                    /* the number of its last task */
#endif
byte owner = NOBODY, g, gstore;   /* g: grants given; gstore: the owner's disk */
bool sup = 1, moving;
byte known[2], brun[2], bstamp[2]; /* of the last heartbeat */
bool leaving[2];

/* dlqd: on disk. */
byte dead_letter[2], dead_lettered[2];

/* Deliverers: on disk, in memory. Sets of grants have a bit each. */
pair has[2];
byte store[2] = 1, marked[2], owed[2]; /* revoked; released is still to be said */
bool up[2] = 1, ended[2], stopping[2];
byte epochs[2] = 1, stamp[2], lease[2], conf[2]; /* stamp of the lease, 0: none */

/* The durable link's links, and the inboxes. */
chan tq[2] = [4] of { mtype, byte, byte, byte };  /* kind, delivery, grant, attempts */
chan ob[2] = [6] of { mtype, byte, byte, byte };
chan bt[2] = [2] of { byte, byte, byte, byte };   /* epoch, stamp, store, grant asked for */
chan an[2] = [2] of { mtype, byte, byte, byte };  /* kind, epoch, stamp, grant */
#ifdef REQUEUE
chan lt = [3] of { mtype, byte, byte };           /* kind, delivery, generation */
chan rq = [2] of { byte, byte };
#endif

/* Ghosts. */
byte f, over[2], answered[2];
byte words, reopened;
bool second_seen, ok_seen[2], again, resting;

#define FAULT(kind) (f < F && ((ONLY) & (kind)))
#define H(d, x)   has[d].at[x]
#define IN_FLIGHT(d, x) (H(d, x).ph >= CHECKED)
#define BUSY(d)   (IN_FLIGHT(d, 0) || IN_FLIGHT(d, 1))
#define BIT(q)    (1 << (q))
#define MARKED(d, q) ((marked[d] >> (q)) & 1)
#define FINAL(x)  (st[x] != OPEN)
#define OUT(x)    (owner != NOBODY && outg[x] != 0 && outg[x] == g)
#define HAS_SPACE(d, k) (len(ob[d]) + k <= 6)

/* ---- mutants: each drops one rule ---- */
#ifdef M_OWNER_IN_MEMORY /* the grant is not on disk before its first task */
#define FORGET take_back()
#else
#define FORGET skip
#endif
#ifdef M_LEASE_FROM_RECEIPT /* the lease is counted from the answer's arrival */
#define PASSED(d, s) false
#else
#define PASSED(d, s) (s <= over[d])
#endif
#ifdef M_GRANTED_WITHOUT_STAMP /* `granted` counts however old it is */
#define GRANT_PASSED(d, s) false
#else
#define GRANT_PASSED(d, s) PASSED(d, s)
#endif
#ifdef M_GRANTED_OF_OTHER_EPOCH /* `granted` counts in whatever epoch it comes */
#define GRANT_EPOCH(d, r) true
#else
#define GRANT_EPOCH(d, r) (r == epochs[d])
#endif
#ifdef M_HEARTBEAT_ACK_OF_OTHER_EPOCH
#define HEARTBEAT_ACK_EPOCH(d, r) true
#else
#define HEARTBEAT_ACK_EPOCH(d, r) (r == epochs[d])
#endif
#ifdef M_REVOKED_OF_OTHER_EPOCH
#define REVOKED_EPOCH(d, r) true
#else
#define REVOKED_EPOCH(d, r) (r == epochs[d])
#endif
#ifdef M_NO_ATTEMPT_WAIT /* taken back without waiting for the longest attempt */
#define SILENT(d) (lease[d] == 0)
#else
#define SILENT(d) (lease[d] == 0 && !BUSY(d))
#endif
#ifdef M_NO_SILENCE_WAIT /* taken back at the first missing heartbeat */
#undef SILENT
#define SILENT(d) true
#endif
#ifdef M_LAPSE_KEEPS_GRANTS /* a lapsed lease leaves the grants confirmed */
#define UNCONFIRM(d) skip
#else
#define UNCONFIRM(d) conf[d] = 0
#endif
#ifdef M_FIRE_EARLY /* scheduled retries begin though nothing was confirmed */
#define MAY(d, x) (conf[d] == H(d, x).gr && lease[d] != 0 || H(d, x).n > 0)
#elif defined(M_CONFIRM_ANY) /* the lease is enough, the grant need not be confirmed */
#define MAY(d, x) (lease[d] != 0)
#else
#define MAY(d, x) (conf[d] == H(d, x).gr && lease[d] != 0)
#endif
#ifdef M_LATE_COUNTS /* results count whatever grant they name */
#define PRESENT(d, q) true
#else
#define PRESENT(d, q) (owner == d && q == g)
#endif
#ifdef M_NO_DROP /* a delivery that is final elsewhere is not dropped */
#define DROP(x) skip
#elif defined(M_NO_DROP_WAIT) /* it is, but the lane does not wait for the answer */
#define DROP(x) tq[owner]!DROPPED,x,g,0; outg[x] = 0
#else
#define DROP(x) tq[owner]!DROPPED,x,g,0
#endif
#ifdef M_NO_DROP_AGAIN /* a dropped one with a scheduled retry is taken for the answer */
#define DROP_AGAIN(x) outg[x] = 0
#else
#define DROP_AGAIN(x) DROP(x)
#endif
#ifdef M_MOVE_NOW /* the grant ends when it is revoked, not when it is released */
#define MOVE take_back()
#else
#define MOVE moving = 1
#endif
#ifdef M_REVOKE_IN_MEMORY /* the mark is not on disk */
#define UNMARK(d) marked[d] = 0; owed[d] = 0
#else
#define UNMARK(d) skip
#endif
#ifdef M_FORGET_REVOKED /* the mark goes when `released` is written */
#define UNMARK_RELEASED(d) marked[d] = 0
#else
#define UNMARK_RELEASED(d) skip
#endif
#ifdef M_TASK_AFTER_REVOKE /* a task under a revoked grant is taken */
#define REFUSED(d, q) false
#else
#define REFUSED(d, q) MARKED(d, q)
#endif
#ifdef M_RELEASED_EARLY /* `released` does not wait for requests in flight */
#define CAN_RELEASE(d) true
#else
#define CAN_RELEASE(d) (!BUSY(d))
#endif
#ifdef M_RETRY_REVOKED /* what ends under a revoked grant schedules a retry there */
#define GIVE_BACK(d, q) false
#else
#define GIVE_BACK(d, q) MARKED(d, q)
#endif
#ifdef M_DIRECT_DLQ /* the deliverer writes the dead letter itself */
#define DEAD_LETTER_BY_SEQUENCER(x) skip
#define DEAD_LETTER_BY_DELIVERER(x) dead_letter[x] = L_DEAD
#else
#define DEAD_LETTER_BY_SEQUENCER(x) to_dlqd(DEAD_LETTER, x)
#define DEAD_LETTER_BY_DELIVERER(x) skip
#endif
#ifdef M_NO_STORE_ID /* a deliverer that lost its disk is taken for the one before */
#define OTHER_DISK(i) false
#else
#define OTHER_DISK(i) (i > gstore)
#endif
#ifdef M_FORMER_DISK /* a heartbeat from a disk that is no more ends grants too */
#undef OTHER_DISK
#define OTHER_DISK(i) (i != gstore)
#define FORMER(d, i) false
#else
#define FORMER(d, i) (i < known[d] || (owner == d && i < gstore))
#endif
#ifdef M_NO_LEAVING /* a deliverer that releases its grants by itself may be an owner at once */
#define LEAVES(d) skip
#else
#define LEAVES(d) leaving[d] = 1
#endif
#ifdef M_ABANDON_FREES /* the lane does not wait for the copy of an abandoned one */
#define ABANDONED(x) tq[owner]!DROPPED,x,g,0; outg[x] = 0
#else
#define ABANDONED(x) tq[owner]!DROPPED,x,g,0
#endif
#ifdef M_RELEASED_IN_ANY_GENERATION /* the answer to a drop also ends a later generation's copy */
#define COUNTS(k, x) true
#else
#define COUNTS(k, x) (k != RELEASED || st[x] != OPEN)
#endif
#ifdef M_NO_WATCH /* nobody asks about deliveries that are out for too long */
#define LATE(d, x) false
#else
#define LATE(d, x) (OUT(x) && owner == d && up[d] && len(tq[d]) == 0 && len(ob[d]) == 0 && \
                    H(d, x).ph == NONE)
#endif
#ifdef M_CHECK_OVERTAKES /* `check` is not behind the task */
#define ASK(d, x) if :: H(d, x).ph == NONE -> ob[d]!MISSING,x,g,task[x] :: else fi
#else
#define ASK(d, x) tq[d]!CHECK,x,g,task[x]
#endif
#ifdef M_MISSING_OVERTAKES /* `missing` is not behind the results */
#define ANSWER(d, x, q, n) if :: PRESENT(d, q) -> outg[x] = 0 :: else fi
#else
#define ANSWER(d, x, q, n) ob[d]!MISSING,x,q,n
#endif
#ifdef M_MISSING_OF_ANY_TASK /* it does not matter about which task it was asked */
#define OF_TASK(x, n) true
#else
#define OF_TASK(x, n) (task[x] == n)
#endif
#ifdef M_REQUEUE_BY_ID /* a requeue is taken in any state */
#define TAKES(x, l) (FINAL(x) && !OUT(x))
#elif defined(M_NO_GENERATION) /* it does not name the generation */
#define TAKES(x, l) (st[x] == DEAD)
#else
#define TAKES(x, l) (st[x] == DEAD && generation[x] == l)
#endif

/* ---- what must hold ---- */
#define LANE(x) (!OUT(0) && !OUT(1) && (x == 0 || FINAL(0)))
#define MAY_BEGIN(d, x) (up[d] && !stopping[d] && H(d, x).ph == WAIT && \
                         !MARKED(d, H(d, x).gr) && MAY(d, x))
#define RUNS(d, x) (up[d] && (IN_FLIGHT(d, x) || MAY_BEGIN(d, x)))
#ifdef NO_ALONE /* to see what the endpoint itself would see */
#define ALONE(d, x) skip
#else
#define ALONE(d, x) assert(!RUNS(1 - d, 0) && !RUNS(1 - d, 1) && !RUNS(d, 1 - x))
#endif

inline set_state(x, v)
{
  assert(st[x] == OPEN || (st[x] == DEAD && v == DELIV)); /* final */
  assert(v != DELIV || ok_seen[x]); /* honest */
  st[x] = v
}
inline forget(d, x) { H(d, x).ph = NONE; H(d, x).gr = 0; H(d, x).n = 0 }

/* ---------------------------------------------------------------- dlqd */
inline to_dlqd(kind, x)
{
#ifdef REQUEUE
  lt!kind,x,generation[x]
#else
  dead_letter[x] = (kind == DEAD_LETTER -> L_DEAD : L_RECOVERED)
#endif
}

#ifdef REQUEUE
active proctype Dlqd()
{
  mtype k; byte x, l;
end:
  do
  :: atomic { nempty(lt) -> lt?k,x,l;
       if
       :: k == DEAD_LETTER -> dead_letter[x] = L_DEAD; dead_lettered[x] = l
       :: k == RECOVERED -> dead_letter[x] = L_RECOVERED
       fi;
       k = 0; x = 0; l = 0 }
  /* An operator's word; the link may repeat it after a restore. */
  :: atomic { dead_letter[0] == L_DEAD && empty(rq) && FAULT(WORD) ->
       f++; words++; dead_letter[0] = L_REQUEUED; rq!0,dead_lettered[0];
       if :: true :: FAULT(WORD) -> f++; rq!0,dead_lettered[0] fi }
  od
}
#endif

/* ----------------------------------------------------------- sequencer */
inline take_back() /* the grant ends: all its work, in one row's change */
{
  owner = NOBODY; gstore = 0; outg[0] = 0; outg[1] = 0; moving = 0
}

inline choose(d)
{
  g++;
  assert(g < 8); /* ends */
  owner = d; gstore = known[d];
  if /* the configuration goes out unasked too, on the last heartbeat */
  :: nfull(an[d]) -> an[d]!GRANTED,brun[d],bstamp[d],g
  :: true
  fi
}

inline apply(d) /* the next row of d's log, one transaction */
{
  ob[d]?k,x,q,n;
  if
  :: k == GRANT_RELEASED ->
     if
     :: owner == d && q == g ->
        if :: !moving -> LEAVES(d) :: else fi;
        take_back()
     :: else
     fi
  :: k != GRANT_RELEASED ->
     now = PRESENT(d, q);
     if
     :: k == DELIVERED && st[x] != DELIV ->
        if :: st[x] == DEAD || generation[x] > 0 -> to_dlqd(RECOVERED, x) :: else fi;
        set_state(x, DELIV);
        if :: OUT(x) && !now -> DROP(x) :: else fi
     :: k == DEAD_END && now && st[x] == OPEN ->
        set_state(x, DEAD); DEAD_LETTER_BY_SEQUENCER(x)
     :: k == RETRYING && now && st[x] == OPEN -> att[x] = n
     :: k == RETRYING && now && st[x] != OPEN && OUT(x) -> DROP_AGAIN(x)
     :: else /* kept as an attempt */
     fi;
     if
#ifdef WATCH
     :: k == MISSING ->
        if
        :: now && st[x] == OPEN && outg[x] == q && OF_TASK(x, n) -> outg[x] = 0
        :: else
        fi
#endif
     :: k != MISSING && now && k != RETRYING && COUNTS(k, x) -> outg[x] = 0
     :: else
     fi
  fi;
  k = 0; x = 0; q = 0; n = 0; now = 0
}

inline heed(d) /* a heartbeat: r, s, its disk i, asking for q */
{
  if
  :: FORMER(d, i)
  :: !FORMER(d, i) ->
     known[d] = i; leaving[d] = 0;
     brun[d] = r; bstamp[d] = s;
     if :: owner == d && OTHER_DISK(i) -> take_back() :: else fi;
     if :: r == epochs[d] && s > answered[d] -> answered[d] = s :: else fi;
     if
     :: q == 0 -> an[d]!HEARTBEAT_ACK,r,s,0
     :: q != 0 && owner == d && q == g -> an[d]!GRANTED,r,s,q
#ifndef M_NO_REVOKED /* nobody says that a grant has ended */
     :: q != 0 && !(owner == d && q == g) -> an[d]!REVOKED,r,s,q
#else
     :: q != 0 && !(owner == d && q == g) -> an[d]!HEARTBEAT_ACK,r,s,0
#endif
     fi
  fi;
  r = 0; s = 0; i = 0; q = 0
}

inline dispatch(x)
{
  outg[x] = g;
#ifdef WATCH
  task[x]++;
#endif
  assert(!(OUT(0) && OUT(1))); /* one out */
  tq[owner]!TASK,x,g,att[x]
}

inline silence(d)
{
  if :: answered[d] > over[d] -> over[d] = answered[d] :: else fi;
  take_back()
}

#ifdef REQUEUE
#define ROOM_FOR_DEAD_LETTER nfull(lt)
#else
#define ROOM_FOR_DEAD_LETTER true
#endif
#define ROOM_FOR_DROP (owner == NOBODY || nfull(tq[owner]))

#define SEQUENCER(d) \
  :: atomic { sup && up[d] && nempty(ob[d]) && ROOM_FOR_DROP -> apply(d) } \
  :: atomic { sup && nempty(bt[d]) && nfull(an[d]) -> \
       if \
       :: bt[d]?r,s,i,q \
       :: len(bt[d]) == 2 -> bt[d]?r,s,i,q; bt[d]!r,s,i,q; bt[d]?r,s,i,q \
       fi; \
       heed(d) } \
  :: atomic { sup && owner == NOBODY && known[d] != 0 && up[d] && !leaving[d] -> \
       choose(d) } \
  :: d_step { sup && owner == d && !up[d] -> silence(d) } \
  :: d_step { sup && owner == d && up[d] && SILENT(d) && FAULT(SILENCE) -> f++; silence(d) } \
  :: d_step { sup && owner == d && !moving && known[1 - d] != 0 && nfull(tq[d]) && \
       FAULT(MOVED) -> f++; tq[d]!REVOKE,0,g,0; MOVE }

#define WATCHES(d, x) \
  :: atomic { sup && nfull(tq[d]) && HAS_SPACE(d, 1) && OUT(x) && owner == d && !moving && \
       (LATE(d, x) || (st[x] == OPEN && FAULT(ASKED))) -> \
       if :: LATE(d, x) :: !LATE(d, x) -> f++ fi; \
       if :: st[x] == OPEN -> ASK(d, x) :: else -> DROP(x) fi }

/* An operator gives an open delivery up. */
inline abandon(x)
{
  f++;
  set_state(x, DEAD); DEAD_LETTER_BY_SEQUENCER(x);
  if :: OUT(x) -> ABANDONED(x) :: else fi
}

active proctype Sequencer()
{
  mtype k; byte x, q, n, r, s, i; bool now;
end:
  do
  SEQUENCER(0)
  SEQUENCER(1)
  :: d_step { sup && owner != NOBODY && nfull(tq[owner]) && !moving &&
       !FINAL(0) && !OUT(0) && LANE(0) -> dispatch(0) }
  :: d_step { sup && owner != NOBODY && nfull(tq[owner]) && !moving &&
       !FINAL(1) && !OUT(1) && LANE(1) -> dispatch(1) }
#ifdef WATCH
  WATCHES(0, 0)
  WATCHES(1, 0)
  WATCHES(0, 1)
  WATCHES(1, 1)
#endif
#if (ONLY) & ABANDON
  :: atomic { sup && st[0] == OPEN && ROOM_FOR_DROP && ROOM_FOR_DEAD_LETTER &&
       FAULT(ABANDON) -> abandon(0) }
#endif
#ifdef REQUEUE
  /* One that was abandoned waits, on disk, until its copy is answered for. */
  :: d_step { sup && nempty(rq) && !(st[0] == DEAD && OUT(0)) -> rq?x,n;
       if
       :: TAKES(x, n) ->
          reopened++;
          assert(st[x] == DEAD && reopened <= words); /* final */
          st[x] = OPEN; generation[x]++; att[x] = 0; again = 1
       :: else /* refused: not dead, or not in that generation */
       fi;
       x = 0; n = 0 }
#endif
  /* kill -9; frames to it die or not; a revocation is forgotten */
  :: atomic { sup && FAULT(KILL_S) -> f++; sup = 0; moving = 0; FORGET;
       known[0] = 0; known[1] = 0; brun[0] = 0; brun[1] = 0;
       bstamp[0] = 0; bstamp[1] = 0; leaving[0] = 0; leaving[1] = 0;
       if :: true :: nempty(bt[0]) -> bt[0]?_,_,_,_ fi;
       if :: true :: nempty(bt[1]) -> bt[1]?_,_,_,_ fi }
  :: d_step { !sup -> sup = 1 }
  od
}

/* ---------------------------------------------------------- deliverers */
inline forget_waiting(d, q)
{
  if :: H(d, 0).ph == WAIT && H(d, 0).gr == q -> forget(d, 0) :: else fi;
  if :: H(d, 1).ph == WAIT && H(d, 1).gr == q -> forget(d, 1) :: else fi
}
/* `q` is a variable of its own: what it is copied from is cleared here. */
inline mark(d, q) /* on disk: begin nothing more under q, say when it is released */
{
  if
  :: q != 0 && !MARKED(d, q) ->
     marked[d] = marked[d] | BIT(q); owed[d] = owed[d] | BIT(q);
     if :: conf[d] == q -> conf[d] = 0 :: else fi;
     forget_waiting(d, q)
  :: else
  fi
}

inline take(d)
{
  tq[d]?k,x,q,n;
  if
  :: k == TASK && stopping[d] -> mark(d, q) /* given back at once */
  :: k == TASK && !stopping[d] && REFUSED(d, q)
  :: k == TASK && !stopping[d] && !REFUSED(d, q) ->
     assert(!IN_FLIGHT(d, x)); /* alone */
     H(d, x).ph = WAIT; H(d, x).gr = q; H(d, x).n = n
#ifdef WATCH
  :: k == CHECK && !MARKED(d, q) && (H(d, x).ph == NONE || H(d, x).gr != q) ->
     ANSWER(d, x, q, n)
  :: k == CHECK && (MARKED(d, q) || (H(d, x).ph != NONE && H(d, x).gr == q))
#endif
  :: k == REVOKE -> mark(d, q)
  :: k == DROPPED && H(d, x).ph == WAIT ->
     ob[d]!RELEASED,x,H(d, x).gr,0; forget(d, x)
  /* One that it does not have is answered too: else a lost one holds its lane. */
  :: k == DROPPED && H(d, x).ph == NONE && !MARKED(d, q) -> ob[d]!RELEASED,x,q,0
  :: k == DROPPED && H(d, x).ph == NONE && MARKED(d, q)
  :: k == DROPPED && IN_FLIGHT(d, x) /* what comes of it is the answer */
  fi;
  k = 0; x = 0; q = 0; n = 0
}

inline hear(d) /* an answer to heartbeat (r, s) */
{
  if
  :: len(an[d]) >= 1 -> an[d]?k,r,s,q
  :: len(an[d]) == 2 -> an[d]?k,r,s,q; an[d]!k,r,s,q; an[d]?k,r,s,q
  fi;
  if
  :: HEARTBEAT_ACK_EPOCH(d, r) && !PASSED(d, s) && s > lease[d] -> lease[d] = s
  :: else
  fi;
  if
  :: k == GRANTED && GRANT_EPOCH(d, r) && !GRANT_PASSED(d, s) &&
     !MARKED(d, q) && !stopping[d] -> conf[d] = q
  :: k == REVOKED && REVOKED_EPOCH(d, r) ->
     forget_waiting(d, q);
     if :: conf[d] == q -> conf[d] = 0 :: else fi
  :: else
  fi;
  k = 0; r = 0; s = 0; q = 0
}

#define UNCONFIRMED(d, x) (H(d, x).ph == WAIT && H(d, x).gr != conf[d])
#define WANTS(d) (known[d] == 0 || leaving[d] || lease[d] == 0 || \
                  UNCONFIRMED(d, 0) || UNCONFIRMED(d, 1))
inline send_heartbeat(d)
{
  stamp[d]++;
  if
  :: UNCONFIRMED(d, 0) -> bt[d]!epochs[d],stamp[d],store[d],H(d, 0).gr
  :: UNCONFIRMED(d, 1) -> bt[d]!epochs[d],stamp[d],store[d],H(d, 1).gr
  :: !UNCONFIRMED(d, 0) && !UNCONFIRMED(d, 1) -> bt[d]!epochs[d],stamp[d],store[d],0
  fi
}

inline begin(d, x)
{
  ALONE(d, x); /* alone */
  assert(x == 0 || FINAL(0) || again); /* order */
  H(d, x).ph = CHECKED
}
inline post(d, x)
{
  assert(x == 1 || !second_seen || again); /* order */
  if :: x == 1 -> second_seen = 1 :: else fi;
  if
  :: H(d, x).ph = GOT_2XX; ok_seen[x] = 1
  :: H(d, x).ph = GOT_NO
  fi
}
inline commit(d, x) /* attempt, scheduled retry and result: one transaction */
{
  if
  :: H(d, x).ph == GOT_2XX -> ob[d]!DELIVERED,x,H(d, x).gr,0; forget(d, x)
  :: H(d, x).ph == GOT_NO && H(d, x).n + 1 < MAX_ATTEMPTS ->
     ob[d]!RETRYING,x,H(d, x).gr,H(d, x).n + 1;
     if
     :: GIVE_BACK(d, H(d, x).gr) -> forget(d, x)
     :: else -> H(d, x).ph = WAIT; H(d, x).n++
     fi
  :: H(d, x).ph == GOT_NO && H(d, x).n + 1 >= MAX_ATTEMPTS ->
     ob[d]!DEAD_END,x,H(d, x).gr,0; forget(d, x); DEAD_LETTER_BY_DELIVERER(x)
  fi
}

/* A task that was in flight is sent again, from its row or over the link; not under a mark. */
inline after_kill(d, x)
{
  if
  :: IN_FLIGHT(d, x) && !MARKED(d, H(d, x).gr) -> H(d, x).ph = WAIT
  :: IN_FLIGHT(d, x) && MARKED(d, H(d, x).gr) -> forget(d, x)
  :: else
  fi
}
inline kill(d)
{
  UNMARK(d);
  up[d] = 0; lease[d] = 0; conf[d] = 0; stopping[d] = 0;
  after_kill(d, 0); after_kill(d, 1)
}
/* A new epoch; stamps begin anew, as after a reboot. Frames to the old one die or not. */
inline start(d)
{
  up[d] = 1; epochs[d]++; stamp[d] = 0; over[d] = 0; answered[d] = 0;
  if :: true :: nempty(an[d]) -> an[d]?_,_,_,_ fi
}

proctype Deliverer(byte d)
{
  mtype k; byte x, q, n, r, s;
end:
  do
  :: atomic { up[d] && nempty(tq[d]) && HAS_SPACE(d, 1) -> take(d) }
  :: atomic { up[d] && nempty(an[d]) -> hear(d) }
  :: atomic { up[d] && !stopping[d] && sup && WANTS(d) && nfull(bt[d]) && empty(an[d]) &&
       !(bt[d]??[eval(epochs[d]),_,_,_]) -> send_heartbeat(d) }
  :: d_step { MAY_BEGIN(d, 0) -> begin(d, 0) }
  :: d_step { MAY_BEGIN(d, 1) -> begin(d, 1) }
  :: atomic { up[d] && H(d, 0).ph == CHECKED -> post(d, 0) }
  :: atomic { up[d] && H(d, 1).ph == CHECKED -> post(d, 1) }
  :: atomic { up[d] && H(d, 0).ph > CHECKED && HAS_SPACE(d, 1) -> commit(d, 0) }
  :: atomic { up[d] && H(d, 1).ph > CHECKED && HAS_SPACE(d, 1) -> commit(d, 1) }
  :: d_step { up[d] && owed[d] != 0 && CAN_RELEASE(d) && HAS_SPACE(d, 3) ->
       q = 1;
       do
       :: q < 8 ->
          if :: (owed[d] >> q) & 1 -> ob[d]!GRANT_RELEASED,0,q,0 :: else fi;
          q++
       :: q == 8 -> break
       od;
       q = 0; owed[d] = 0; UNMARK_RELEASED(d) }
  /* SIGTERM: all grants go back, then it leaves. */
  :: d_step { up[d] && !stopping[d] && FAULT(STOP) -> f++; stopping[d] = 1;
       q = conf[d]; mark(d, q);
       q = H(d, 0).gr; mark(d, q);
       q = H(d, 1).gr; mark(d, q);
       q = 0 }
  :: atomic { up[d] && stopping[d] && owed[d] == 0 && !BUSY(d) && empty(ob[d]) ->
       kill(d) }
#ifdef WATCH
  /* It loses a delivery, in memory and on disk: a defect. */
  :: d_step { up[d] && H(d, 0).ph == WAIT && FAULT(GONE) -> f++; forget(d, 0) }
  :: d_step { up[d] && H(d, 1).ph == WAIT && FAULT(GONE) -> f++; forget(d, 1) }
#endif
  /* kill -9; a start; the end of a machine, the other one stays */
  :: d_step { up[d] && FAULT(KILL_D) -> f++; kill(d) }
  /* the disk too; unacknowledged tasks will come again */
  :: atomic { up[d] && FAULT(DISK) -> f++; kill(d);
       store[d]++; marked[d] = 0; owed[d] = 0;
       if :: true :: H(d, 0).ph != NONE -> forget(d, 0) fi;
       if :: true :: H(d, 1).ph != NONE -> forget(d, 1) fi;
       if
       :: true
       :: nempty(ob[d]) ->
          do :: nempty(ob[d]) -> ob[d]?_,_,_,_ :: empty(ob[d]) -> break od
       fi }
  :: atomic { !up[d] && !ended[d] -> start(d) }
  :: d_step { !up[d] && !ended[d] && !ended[1 - d] -> ended[d] = 1 }
  /* the lease has expired; a heartbeat too early; a frame lost */
  :: d_step { up[d] && lease[d] != 0 && FAULT(LAPSE) ->
       f++;
       if :: lease[d] > over[d] -> over[d] = lease[d] :: else fi;
       lease[d] = 0; UNCONFIRM(d) }
  :: atomic { up[d] && !stopping[d] && nfull(bt[d]) && FAULT(EARLY) -> f++; send_heartbeat(d) }
  :: atomic { nempty(bt[d]) && FAULT(LOSS) -> f++; bt[d]?_,_,_,_ }
  :: atomic { nempty(an[d]) && FAULT(LOSS) -> f++; an[d]?_,_,_,_ }
  od
}

#define AT_REST(d) (ended[d] || (up[d] && empty(tq[d]) && empty(ob[d]) && \
                    H(d, 0).ph == NONE && H(d, 1).ph == NONE && owed[d] == 0))
#ifdef REQUEUE
#define NO_WORDS (empty(lt) && empty(rq))
#else
#define NO_WORDS true
#endif

active proctype Judge()
{
  timeout ->
  assert(sup && FINAL(0) && FINAL(1) && !OUT(0) && !OUT(1) && !moving); /* no loss */
  assert(AT_REST(0) && AT_REST(1) && NO_WORDS); /* no loss */
  assert((st[0] == DEAD) == (dead_letter[0] == L_DEAD)); /* no loss */
  assert((st[1] == DEAD) == (dead_letter[1] == L_DEAD)); /* no loss */
  resting = 1
}

init { atomic { run Deliverer(0); run Deliverer(1) } }

#ifdef ENDS
ltl ends { <> resting }
#endif
