/*
 * replication.pml: one replicated store, its two hosts and the engine that keeps its
 * log. Specification of docs/decisions/0126.
 *
 * A row of the log is one number, which no other row has: the bytes of a turn. A file
 * and the engine's log are the rows in order, three bits each, so comparing two of them
 * is what the product does by chains of hashes.
 *
 * The engine has what its sessions see (vis) and what survives the loss of a node (dur).
 * An acknowledged transaction that has written is durable with all before it. One whose
 * outcome is unknown waits in a slot of its host: it is executed at any later time,
 * durably or only visibly, or never. At a failover what was only visible is gone.
 *
 * Time: each host counts its own ticks. HOLD: how long a node may send after it began a
 * transaction that was acknowledged. WAIT: how long a standby has to see the same beat
 * before it takes over. A process is slow or paused by doing nothing while time passes.
 *
 * Faults: C kills and W wiped disks of a node; U unknown outcomes; O failovers of the
 * engine; K ticks that a host's clock does not count; S takeovers from a node that works,
 * but is slow; H releases (SIGTERM, or a handover); B beats.
 * -DSLOW: the engine's response is read later than it was made.
 * -DLEASE: each node confirms leases of a deliverer that no other node reaches. A
 * confirmation may arrive late; its lease counts from before the node's look at its
 * permission.
 *
 * Checked
 *   lost     what was sent is in the file of everybody who sends later, under the same
 *            number; so numbers have no gap and are not given twice
 *   alone    no two nodes may send at once
 *   lanes    no two deliverers have a lease at once
 *   in log   no file has a row that the log does not have, except for one turn that was
 *            not acknowledged; and no cut leaves pages of that turn
 *   alarm    the active never finds a log that contradicts its file
 *   fenced   nobody stops as fenced while it is the owner
 *   rest     when nothing more can happen, one node is active, and every row was sent and
 *            is in both files
 *
 * Not here: snapshots and the deletion of old log rows, a new history, claims (they
 * prevent needless takeovers), a third node (after a kill both nodes are standbys, which
 * is a race of two), several stores, the link itself (link.pml), and the host that a
 * release names: the others take over later than without it, and by the same rule as
 * from a silent active, so each run with a name is also a run without one.
 *
 * `run` reads these; README.md has what the mutants show.
 *
 * RUN kills_unknown -DC=1 -DU=1
 * RUN kills_slow_active -DC=1 -DS=1
 * RUN wiped -DC=1 -DW=1 -DU=1 -DO=1
 * RUN failover -DU=1 -DO=1 -DS=1
 * RUN unknown_twice -DU=2 -DO=1
 * RUN skew -DS=1 -DK=1 -DU=1 -DHOLD=2
 * RUN responses_late -DSLOW -DS=1 -DK=1
 * RUN release -DH=2 -DU=1 -DO=1
 * RUN release_kill -DH=1 -DC=1
 * RUN leases -DLEASE -DS=1 -DK=1
 * RUN leases_release -DLEASE -DH=1 -DK=1
 * LONG kills_unknown_slow -DC=1 -DU=1 -DS=1
 * LONG kills_twice -DC=2 -DU=1
 * LONG rows_3 -DN=3 -DV=4 -DC=1 -DU=1 -DO=1
 *
 * MUTANT M_TURN_OF_ANY_EPOCH -DU=1 -DS=1
 * MUTANT M_TURN_AFTER_ANY -DU=1
 * MUTANT M_OTHER_BYTES -DU=1
 * MUTANT M_NO_ROW_IS_FENCED -DU=1
 * MUTANT M_SAY_FIRST -DC=1
 * MUTANT M_ASYNCHRONOUS -DC=1 -DO=1
 * MUTANT M_READ_PROVES -DU=1 -DO=1
 * MUTANT M_READ_WITHOUT_WRITE -DU=1 -DO=1
 * MUTANT M_READ_PERMITS -DC=1 -DU=1 -DS=1
 * MUTANT M_NO_CUT -DC=1
 * MUTANT M_COPY_FIRST -DC=1
 * MUTANT M_NO_HOLD -DS=1
 * MUTANT M_NO_SILENCE -DS=1
 * MUTANT M_NO_MARGIN -DS=1 -DK=1
 * MUTANT M_HOLD_FROM_RESPONSE -DSLOW -DS=1
 * MUTANT M_BEAT_NOT_COMPARED -DS=1
 * MUTANT M_EPOCH_KEPT -DC=1 -DU=1 -DS=1
 * MUTANT M_START_SKIPS -DC=1 -DS=1
 * MUTANT M_RELEASE_AT_ANY_BEAT -DH=2 -DU=1
 * MUTANT M_RELEASE_WHILE_SENDING -DH=1 -DU=1
 * MUTANT M_GRANT_AT_ONCE -DLEASE -DS=1
 * MUTANT M_LOOK_BEFORE_READING -DLEASE -DS=1
 *
 * UNNEEDED M_TAKE_ANY_LAST -DC=1 -DS=1
 */
#ifndef N
#define N 2 /* rows of the log, at most 4 */
#endif
#ifndef V
#define V 3 /* different bytes of turns, at most 7 */
#endif
#ifndef C
#define C 0
#endif
#ifndef W
#define W 0
#endif
#ifndef U
#define U 0
#endif
#ifndef O
#define O 0
#endif
#ifndef K
#define K 0
#endif
#ifndef S
#define S 0
#endif
#ifndef H
#define H 0
#endif
#ifndef B
#define B 1
#endif
#ifndef HOLD
#define HOLD 1
#endif
#define AHEAD 4 /* how far the beat may be beyond the oldest that anybody knows */
#ifdef M_NO_MARGIN /* the silence is no longer than what the active may use */
#define WAIT HOLD
#else
#define WAIT (HOLD + K)
#endif
#define LEASE_TICKS 2 /* more than HOLD */

#define ROW(n, v) ((v) << (3 * ((n) - 1)))
#define FIRST(x, n) ((x) & ((1 << (3 * (n))) - 1))
#define OTHER(i) (1 - (i))

mtype = { NOTHING, TURN, BEAT, TAKE, RELEASE };
mtype = { STANDBY, ACTIVE, RELEASING };

typedef engine { byte epoch, holder, last, beat; short rows }
engine vis, dur;

/* On disk: rows; their number; whether the last is not known to be in the log; whether
 * the checkpoint has copied pages of that one; the holder that the last start has been. */
short file[2];
byte rows[2];
bool open[2], copied[2];
byte former[2];
/* In memory. */
mtype role[2] = STANDBY;
byte me[2]; /* its name as holder: of this start only */
byte epoch[2], beat[2];
bool seen[2]; /* has followed the log since it started */
byte still[2], hold[2];
/* A transaction of unknown outcome. */
mtype late[2] = NOTHING;
byte l_epoch[2], l_rows[2], l_beat[2], l_holder[2];
short l_file[2];
#ifdef SLOW
bool reply[2];
byte began[2];
#endif
#ifdef LEASE
byte confirmation[2], lease[2], quiet[2];
#endif

/* Ghosts. */
byte vals;
byte kills, wipes, unknowns, failovers, skews, hasty, releases, voluntary;
short told;
byte told_rows;
bool mixed[2], ok;
byte low;

/* ---- mutants: each drops one rule ---- */
#ifdef M_TURN_OF_ANY_EPOCH /* a turn does not compare epoch and holder */
#define OWNS_TURN(e, h) true
#else
#define OWNS_TURN(e, h) OWNS(e, h)
#endif
#ifdef M_TURN_AFTER_ANY /* a turn does not compare the last number */
#define FOLLOWS(n, x) true
#else
#define FOLLOWS(n, x) (vis.last == (n) - 1 && vis.rows == FIRST(x, (n) - 1))
#endif
#ifdef M_BEAT_NOT_COMPARED /* a takeover does not compare the beat */
#define SAME_BEAT(b) true
#else
#define SAME_BEAT(b) (vis.beat == (b))
#endif
#ifdef M_TAKE_ANY_LAST /* a takeover does not compare number and chain */
#define SAME_LAST(n, x) true
#else
#define SAME_LAST(n, x) (vis.last == (n) && vis.rows == (x))
#endif
#ifdef M_RELEASE_AT_ANY_BEAT /* a release does not compare the beat */
#define RELEASES_AT(b) true
#else
#define RELEASES_AT(b) (vis.beat == (b))
#endif
#ifdef M_EPOCH_KEPT /* a takeover changes only the holder */
#define NEXT(e) (e)
#else
#define NEXT(e) ((e) + 1)
#endif
#define OWNS(e, h) (vis.epoch == (e) && vis.holder == (h))

#ifdef M_NO_HOLD /* permission to send does not end by time */
#define PERMITTED(i) true
#else
#define PERMITTED(i) (hold[i] > 0)
#endif
#define MAY_SEND(i) (role[i] == ACTIVE && PERMITTED(i))

/* ---- the engine ---- */
inline make_durable()
{
  dur.epoch = vis.epoch; dur.holder = vis.holder; dur.last = vis.last;
  dur.beat = vis.beat; dur.rows = vis.rows
}
inline fail_over()
{
  vis.epoch = dur.epoch; vis.holder = dur.holder; vis.last = dur.last;
  vis.beat = dur.beat; vis.rows = dur.rows
}
#define IS_DURABLE (vis.epoch == dur.epoch && vis.holder == dur.holder && \
                    vis.last == dur.last && vis.beat == dur.beat && vis.rows == dur.rows)

/* ok: it changed one row. */
inline execute(k, e, n, x, b, h)
{
  ok = 0;
  if
  :: k == TURN && OWNS_TURN(e, h) && FOLLOWS(n, x) ->
     vis.rows = x; vis.last = n; vis.beat++; ok = 1
  :: k == BEAT && OWNS(e, h) && vis.last == n && vis.rows == x -> vis.beat++; ok = 1
  :: k == TAKE && vis.epoch == e && SAME_LAST(n, x) && SAME_BEAT(b) ->
     vis.epoch = NEXT(e); vis.holder = h; ok = 1
  :: k == RELEASE && OWNS(e, h) && vis.last == n && RELEASES_AT(b) ->
     vis.holder = 0; vis.beat++; ok = 1
  :: else
  fi
}

/* Beats and epochs are compared only with each other, names of holders too: what nobody
 * knows any more is taken off, and a name that nobody knows is given again. So the number
 * of states is small. */
#define LOWER(x, known) if :: (known) && (x) < low -> low = (x) :: else fi
inline shrink()
{
  low = vis.beat; LOWER(dur.beat, true);
  LOWER(beat[0], seen[0]); LOWER(beat[1], seen[1]);
  LOWER(l_beat[0], late[0] != NOTHING); LOWER(l_beat[1], late[1] != NOTHING);
  vis.beat = vis.beat - low; dur.beat = dur.beat - low;
  if :: seen[0] -> beat[0] = beat[0] - low :: else fi;
  if :: seen[1] -> beat[1] = beat[1] - low :: else fi;
  if :: late[0] != NOTHING -> l_beat[0] = l_beat[0] - low :: else fi;
  if :: late[1] != NOTHING -> l_beat[1] = l_beat[1] - low :: else fi;
  low = vis.epoch; LOWER(dur.epoch, true);
  LOWER(epoch[0], seen[0]); LOWER(epoch[1], seen[1]);
  LOWER(l_epoch[0], late[0] != NOTHING); LOWER(l_epoch[1], late[1] != NOTHING);
  vis.epoch = vis.epoch - low; dur.epoch = dur.epoch - low;
  if :: seen[0] -> epoch[0] = epoch[0] - low :: else fi;
  if :: seen[1] -> epoch[1] = epoch[1] - low :: else fi;
  if :: late[0] != NOTHING -> l_epoch[0] = l_epoch[0] - low :: else fi;
  if :: late[1] != NOTHING -> l_epoch[1] = l_epoch[1] - low :: else fi;
  low = 0
}
#define NAMES(h) (me[0] == (h) || me[1] == (h) || former[0] == (h) || former[1] == (h) || \
                  l_holder[0] == (h) || l_holder[1] == (h) || vis.holder == (h) || \
                  dur.holder == (h))
inline name(i)
{
  low = 1;
  do :: NAMES(low) -> low++ :: else -> break od;
  me[i] = low; low = 0
}

/* ---- a node ---- */
/* It ends, and another one starts on its host: as a standby, which has read nothing. */
inline restart(i)
{
  role[i] = STANDBY; epoch[i] = 0; beat[i] = 0; seen[i] = 0; still[i] = 0; hold[i] = 0;
#ifdef SLOW
  reply[i] = 0; began[i] = 0;
#endif
#ifdef LEASE
  quiet[i] = 0;
#endif
  name(i)
}

inline permit(i, ticks)
{
  if :: hold[i] < ticks -> hold[i] = ticks :: else fi;
  assert(!(MAY_SEND(i) && MAY_SEND(OTHER(i)))) /* alone */
}

inline begin(i) /* it owns the store */
{
  assert(!mixed[i]); /* in log */
  role[i] = ACTIVE; still[i] = 0; former[i] = me[i];
#ifdef LEASE
#ifndef M_GRANT_AT_ONCE /* a new active does not wait for the leases of the former one */
  quiet[i] = LEASE_TICKS + K
#endif
#endif
}

/* Cuts the turn that the log does not have. */
inline cut(i)
{
  file[i] = FIRST(file[i], rows[i] - 1); rows[i]--;
  if :: copied[i] -> mixed[i] = 1 :: else fi
}

/* One transaction: it reads the log and the owner, and writes the row of this standby. */
inline follow(i)
{
#ifndef M_READ_WITHOUT_WRITE /* what a standby reads may be visible only */
  make_durable();
#endif
  if
  :: open[i] ->
#ifndef M_NO_CUT /* a start keeps the turn that was not replicated */
     if
     :: vis.last >= rows[i] && FIRST(vis.rows, rows[i]) == file[i]
     :: else -> cut(i)
     fi;
#endif
     open[i] = 0; copied[i] = 0
  :: else
  fi;
  assert(rows[i] <= vis.last && FIRST(vis.rows, rows[i]) == file[i]); /* in log */
  file[i] = vis.rows; rows[i] = vis.last;
  if
  :: !seen[i] || vis.beat != beat[i] || vis.epoch != epoch[i] -> still[i] = 0
  :: else
  fi;
  seen[i] = 1; beat[i] = vis.beat; epoch[i] = vis.epoch;
  if
  :: vis.holder == me[i] -> /* its own takeover, of unknown outcome until now */
     begin(i);
#ifdef M_READ_PERMITS /* a read gives permission to send */
     permit(i, HOLD)
#endif
  :: else
  fi
}
#define SHOULD_FOLLOW(i) (!seen[i] || open[i] || rows[i] != vis.last || file[i] != vis.rows || \
                          beat[i] != vis.beat || epoch[i] != vis.epoch || \
                          vis.holder == me[i] || !IS_DURABLE)

/* Whether it has waited long enough: nobody has permission to send any more. */
#ifdef M_NO_SILENCE /* a standby takes over without waiting */
#define SILENT(i) true
#else
#define SILENT(i) (still[i] == WAIT)
#endif
#ifdef M_START_SKIPS /* any process that has started on a host skips the silence */
#define IS_MINE(i) (former[i] != 0)
#else
/* The owner was the process before this one: the lock file shows that it has ended. */
#define IS_MINE(i) (former[i] != 0 && vis.holder == former[i])
#endif
#define MAY_TAKE(i) (seen[i] && vis.epoch == epoch[i] && \
                     (SILENT(i) || vis.holder == 0 || IS_MINE(i)))
#define IS_FREE(i) (vis.holder == 0 || (role[OTHER(i)] != ACTIVE && role[OTHER(i)] != RELEASING))

inline stop(i) /* fenced: exit 75 */
{
  assert(vis.holder != me[i]); /* fenced */
  restart(i)
}

/* No row was changed: the owner row, read in the same transaction, decides. */
inline judge(i)
{
#ifdef M_NO_ROW_IS_FENCED /* no row changed is taken for fencing */
  stop(i)
#else
  if
  :: !OWNS(epoch[i], me[i]) -> stop(i)
  :: else ->
     beat[i] = vis.beat;
     if
     :: open[i] && vis.last == rows[i] && vis.rows == file[i] -> open[i] = 0; copied[i] = 0
     :: open[i] && vis.last == rows[i] - 1 && vis.rows == FIRST(file[i], rows[i] - 1)
     :: !open[i] && vis.last == rows[i] && vis.rows == file[i]
     :: else -> assert(false) /* alarm */
     fi
  fi
#endif
}

inline acknowledged(i, k)
{
  if
  :: ok ->
     if
     :: k == TAKE -> epoch[i] = vis.epoch; begin(i); permit(i, HOLD)
     :: k == RELEASE -> restart(i)
     :: else ->
        open[i] = 0; copied[i] = 0; beat[i] = vis.beat; role[i] = ACTIVE;
#ifdef SLOW
        if :: permit(i, HOLD) :: reply[i] = 1; began[i] = HOLD fi
#else
        permit(i, HOLD)
#endif
     fi
  :: !ok && k == TAKE /* it follows the log on */
  :: !ok && k != TAKE -> judge(i)
  fi
}

inline request(i, k)
{
  if
  :: execute(k, epoch[i], rows[i], file[i], beat[i], me[i]);
     if
#ifdef M_ASYNCHRONOUS /* the engine acknowledges what its standby does not have */
     :: ok
#else
     :: ok -> make_durable()
#endif
#ifdef M_READ_PROVES /* what decides was read without a write, so it may be visible only */
     :: !ok
#else
     :: !ok -> make_durable()
#endif
     fi;
     acknowledged(i, k)
  :: unknowns < U && late[i] == NOTHING ->
     unknowns++;
     late[i] = k; l_epoch[i] = epoch[i]; l_rows[i] = rows[i]; l_file[i] = file[i];
     l_beat[i] = beat[i]; l_holder[i] = me[i];
#ifdef M_OTHER_BYTES /* after an unknown outcome the number gets other bytes */
     if
     :: k == TURN && vals < V ->
        vals++; file[i] = FIRST(file[i], rows[i] - 1) | ROW(rows[i], vals)
     :: else
     fi
#endif
  fi;
  ok = 0
}

inline no_longer_late(i)
{
  late[i] = NOTHING; l_epoch[i] = 0; l_rows[i] = 0; l_file[i] = 0; l_beat[i] = 0;
  l_holder[i] = 0
}

inline say(i)
{
  assert(FIRST(file[i], told_rows) == told && rows[i] >= told_rows); /* lost */
  assert(!mixed[i]); /* in log */
  told = file[i]; told_rows = rows[i]
}
#ifdef M_SAY_FIRST /* a turn is sent before it is acknowledged */
#define SAYABLE(i) true
#else
#define SAYABLE(i) (!open[i])
#endif

#ifdef SLOW
#define AWAITS(i) reply[i]
#else
#define AWAITS(i) false
#endif
#define CAN_ASK(i) (vis.beat < AHEAD || !OWNS(epoch[i], me[i]))
/* A beat is needed, or it finds out that it is fenced. */
#define NEEDS_BEAT(i) ((!PERMITTED(i) && told_rows < rows[i]) || \
                       !OWNS(epoch[i], me[i]))

#ifdef M_RELEASE_WHILE_SENDING /* a node sends until its release is acknowledged */
#define LEAVE(i) skip
#define LEAVING(i) (role[i] == ACTIVE && releases > 0 && !AWAITS(i))
#else
#define LEAVE(i) role[i] = RELEASING; hold[i] = 0
#define LEAVING(i) (role[i] == RELEASING)
#endif

#ifdef M_HOLD_FROM_RESPONSE /* permission counts from the response */
#define LEFT(i) HOLD
#else
#define LEFT(i) began[i]
#endif

#ifdef LEASE
/* The heartbeat that is confirmed was sent as late as it can have been: right before the
 * node's look at its permission. */
#ifdef M_LOOK_BEFORE_READING /* a node confirms a heartbeat that it read after its look */
#define CONFIRMED(i) LEASE_TICKS
#define EXPIRES(i)
#else
#define CONFIRMED(i) confirmation[i]
#define EXPIRES(i) if :: confirmation[i] > 0 -> confirmation[i]-- :: else fi;
#endif
#endif

/* ---- time ---- */
inline count(i, slow) /* one tick; `slow`: the clock of host i does not count it */
{
  if
  :: hold[i] > 0 && !(slow) -> hold[i]--
  :: else
  fi;
  if :: role[i] == STANDBY && seen[i] && still[i] < WAIT -> still[i]++ :: else fi;
#ifdef SLOW
  if :: began[i] > 0 && !(slow) -> began[i]-- :: else fi;
#endif
#ifdef LEASE
  if :: lease[i] > 0 && !(slow) -> lease[i]-- :: else fi;
  if :: quiet[i] > 0 -> quiet[i]-- :: else fi;
  EXPIRES(i)
#endif
}
#ifdef SLOW
#define BEGAN(i) began[i]
#else
#define BEGAN(i) 0
#endif
#ifdef LEASE
#define LEASED(i) (lease[i] > 0 || quiet[i] > 0)
#else
#define LEASED(i) false
#endif
#define TIMED(i) (hold[i] > 0 || BEGAN(i) > 0 || LEASED(i) || \
                  (role[i] == STANDBY && seen[i] && still[i] < WAIT))

proctype Node(byte i)
{
  mtype k;
end:
  do
  :: d_step { role[i] == ACTIVE && !AWAITS(i) && !open[i] && rows[i] < N && vals < V ->
       vals++; rows[i]++; file[i] = file[i] | ROW(rows[i], vals); open[i] = 1 }
  :: atomic {
       if
       :: role[i] == ACTIVE && !AWAITS(i) && open[i] && CAN_ASK(i) -> k = TURN
       :: role[i] == ACTIVE && !AWAITS(i) && !open[i] && NEEDS_BEAT(i) && CAN_ASK(i) -> k = BEAT
       :: role[i] == ACTIVE && !AWAITS(i) && voluntary < B && CAN_ASK(i) ->
          voluntary++; k = BEAT
       :: LEAVING(i) && !open[i] && CAN_ASK(i) -> k = RELEASE
       :: LEAVING(i) && releases < H && CAN_ASK(i) -> releases++; k = BEAT
       :: role[i] == STANDBY && MAY_TAKE(i) && vis.holder != me[i] && late[i] != TAKE &&
          IS_FREE(i) -> k = TAKE
       :: role[i] == STANDBY && MAY_TAKE(i) && vis.holder != me[i] && late[i] != TAKE &&
          !IS_FREE(i) && hasty < S -> hasty++; k = TAKE
       fi;
       request(i, k); k = NOTHING;
       shrink() }
  :: atomic { MAY_SEND(i) && !AWAITS(i) && SAYABLE(i) && told != file[i] -> say(i) }
  /* It stops sending before it writes its release. */
  :: d_step { role[i] == ACTIVE && !AWAITS(i) && !open[i] && releases < H ->
       releases++; LEAVE(i) }
  :: atomic { role[i] == STANDBY && SHOULD_FOLLOW(i) -> follow(i); shrink() }
  /* A transaction of unknown outcome. */
  :: atomic { late[i] != NOTHING ->
       if
       :: execute(late[i], l_epoch[i], l_rows[i], l_file[i], l_beat[i], l_holder[i]);
          ok = 0;
          if :: make_durable() :: true fi
       :: true
       fi;
       no_longer_late(i); shrink() }
  /* kill -9, of the process or with its machine */
  :: atomic { kills < C && (role[i] != STANDBY || seen[i]) ->
       kills++; restart(i);
       if
       :: true
       :: wipes < W ->
          wipes++; file[i] = 0; rows[i] = 0; open[i] = 0; copied[i] = 0; former[i] = 0
       fi;
       shrink() }
#ifdef SLOW
  :: atomic { reply[i] -> permit(i, LEFT(i)); reply[i] = 0; began[i] = 0 }
#endif
#ifdef LEASE
  :: d_step { MAY_SEND(i) && quiet[i] == 0 && confirmation[i] == 0 &&
       lease[i] < LEASE_TICKS -> confirmation[i] = LEASE_TICKS }
  :: d_step { confirmation[i] > 0 ->
       assert(lease[OTHER(i)] == 0); /* lanes */
       if :: lease[i] < CONFIRMED(i) -> lease[i] = CONFIRMED(i) :: else fi;
       confirmation[i] = 0 }
#endif
#ifdef M_COPY_FIRST /* the checkpoint copies a turn that is not replicated */
  :: role[i] == ACTIVE && open[i] && !copied[i] -> copied[i] = 1
#endif
  od
}

active proctype Time()
{
  do
  :: atomic { TIMED(0) || TIMED(1) ->
       if
       :: count(0, false); count(1, false)
       :: skews < K -> skews++; count(0, true); count(1, false)
       :: skews < K -> skews++; count(0, false); count(1, true)
       fi }
  :: atomic { failovers < O && !IS_DURABLE -> failovers++; fail_over(); shrink() }
  :: timeout -> break
  od;
  assert(FIRST(vis.rows, told_rows) == told); /* lost */
  assert((role[0] == ACTIVE) != (role[1] == ACTIVE)); /* rest */
  assert(vals == V || vis.last == N); /* rest */
  assert(told == vis.rows && file[0] == told && file[1] == told) /* rest */
}

init
{
  atomic {
    vis.holder = 1; dur.holder = 1;
    me[0] = 1; former[0] = 1; role[0] = ACTIVE; seen[0] = 1; hold[0] = HOLD;
    me[1] = 2;
    run Node(0); run Node(1)
  }
}
