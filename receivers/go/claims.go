package receiver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// LeaseS is how long a claim lasts that nobody ends, because the process died.
const LeaseS = 60

// claims is a store whose memory cannot share a transaction with your work: the event is claimed,
// processed, and then stored as processed.
type claims interface {
	claim(ctx context.Context, e *Event, token string, numbered bool, nowS int64) (bool, facts, error)
	release(ctx context.Context, e *Event, token string) error
	finish(ctx context.Context, e *Event, numbered bool, floor *int64, announced bool, nowS int64) error
}

func process(ctx context.Context, s claims, e *Event, nowS int64, order bool, handle Handler) (Check, error) {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return Check{}, err
	}
	token, numbered := hex.EncodeToString(random), order && e.Numbered
	first, f, err := s.claim(ctx, e, token, numbered, nowS)
	if err != nil {
		return Check{}, err
	}
	c, floor, announced := plain(first), (*int64)(nil), false
	if numbered {
		c, floor, announced = decide(e, first, f)
	}
	if first {
		done := false
		defer func() {
			if !done { // also when handle panics, or the request has been cancelled
				s.release(context.Background(), e, token)
			}
		}()
		if err = handle(ctx, e, c, nil); err != nil {
			return c, err
		}
		done = true
	}
	return c, s.finish(context.Background(), e, numbered, floor, announced, nowS)
}

type arrival struct {
	number int64
	id     string
	at     int64
}

type space struct {
	floor     *int64
	announced bool
	highest   int64
	arrived   map[int64]string // ids
	order     []arrival        // in order of arrival
	missing   map[int64]int64  // number: since
}

// MemoryStore is for tests, and for one process whose work may be repeated after a restart. KeepS
// may be set before its first use.
type MemoryStore struct {
	KeepS   int64
	mutex   sync.Mutex
	ids     map[string]bool
	order   []arrival // in order of arrival
	claimed map[string]bool
	spaces  map[[2]string]*space // by workspace and series
}

// NewMemoryStore is empty.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{KeepS: KeepS, ids: map[string]bool{}, claimed: map[string]bool{},
		spaces: map[[2]string]*space{}}
}

// Process implements Store.
func (s *MemoryStore) Process(ctx context.Context, e *Event, nowS int64, order bool, handle Handler) (Check, error) {
	return process(ctx, s, e, nowS, order, handle)
}

func (s *MemoryStore) claim(_ context.Context, e *Event, _ string, numbered bool, _ int64) (bool, facts, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.claimed[e.ID] {
		return false, facts{}, ErrBusy
	}
	first := !s.ids[e.ID]
	if first {
		s.claimed[e.ID] = true
	}
	if !numbered {
		return first, facts{}, nil
	}
	return first, s.facts(e), nil
}

func (s *MemoryStore) space(e *Event) *space {
	at := [2]string{e.Workspace, e.Series}
	if s.spaces[at] == nil {
		s.spaces[at] = &space{arrived: map[int64]string{}, missing: map[int64]int64{}}
	}
	return s.spaces[at]
}

func (s *MemoryStore) facts(e *Event) facts {
	own := s.space(e)
	f := facts{floor: own.floor, announced: own.announced, holder: own.arrived[e.Sequence],
		highest: own.highest}
	_, f.hasPrevious = own.arrived[e.Previous]
	_, f.named = own.missing[e.Sequence]
	if !f.hasPrevious {
		for n := range own.arrived {
			if n < e.Previous && n > f.below {
				f.below = n
			}
		}
	}
	for at, other := range s.spaces {
		if at[0] == e.Workspace && at[1] != e.Series {
			_, has := other.arrived[e.Previous]
			f.inOther = f.inOther || has
			f.earlier = f.earlier || other.floor != nil
		}
	}
	return f
}

func (s *MemoryStore) release(_ context.Context, e *Event, _ string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.claimed, e.ID)
	return nil
}

func (s *MemoryStore) finish(_ context.Context, e *Event, numbered bool, floor *int64, announced bool, nowS int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.claimed, e.ID)
	if !s.ids[e.ID] {
		s.ids[e.ID] = true
		s.order = append(s.order, arrival{id: e.ID, at: nowS})
	}
	if numbered {
		s.number(s.space(e), e, floor, announced, nowS)
	}
	s.drop(nowS - s.KeepS)
	return nil
}

func (s *MemoryStore) number(own *space, e *Event, floor *int64, announced bool, nowS int64) {
	if own.floor == nil && floor != nil {
		value := *floor
		own.floor = &value
	}
	own.announced = own.announced || announced
	if _, there := own.arrived[e.Sequence]; !there {
		own.arrived[e.Sequence] = e.ID
		own.order = append(own.order, arrival{e.Sequence, e.ID, nowS})
	}
	delete(own.missing, e.Sequence)
	if e.Sequence > own.highest {
		own.highest = e.Sequence
	}
	_, has := own.arrived[e.Previous]
	_, known := own.missing[e.Previous]
	if own.floor != nil && e.Previous > *own.floor && !has && !known {
		own.missing[e.Previous] = nowS
	}
}

// drop: entries are in order of arrival, so it ends at the first one that is young enough.
func (s *MemoryStore) drop(beforeS int64) {
	for len(s.order) > 0 && s.order[0].at < beforeS {
		delete(s.ids, s.order[0].id)
		s.order = s.order[1:]
	}
	for _, own := range s.spaces {
		dropped := false
		for ; len(own.order) > 0 && own.order[0].at < beforeS; own.order = own.order[1:] {
			n := own.order[0].number
			delete(own.arrived, n)
			if own.floor != nil && n > *own.floor {
				own.floor, dropped = &n, true
			}
		}
		for n := range own.missing {
			if dropped && n <= *own.floor {
				delete(own.missing, n)
			}
		}
	}
}

// Missing implements Store.
func (s *MemoryStore) Missing(_ context.Context, beforeS int64) ([]Missing, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []Missing
	for at, own := range s.spaces {
		for n, since := range own.missing {
			if since > beforeS {
				continue
			}
			m := Missing{Series: at[1], Workspace: at[0], Number: n, Since: since}
			for other, theirs := range s.spaces {
				_, has := theirs.arrived[n]
				m.Unsure = m.Unsure || (other[0] == at[0] && other[1] != at[1] && has)
			}
			found = append(found, m)
		}
	}
	return sorted(found), nil
}

// Forget implements Store.
func (s *MemoryStore) Forget(_ context.Context, beforeS int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.drop(beforeS)
	return nil
}

func sorted(found []Missing) []Missing {
	if found == nil {
		found = []Missing{} // in JSON, it is []
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		return a.Since < b.Since || (a.Since == b.Since && a.Number < b.Number)
	})
	return found
}

// Keys have one prefix with braces, so that a cluster keeps them together. The libraries of other
// languages have the same keys:
//
//	PREFIX:id:ID                   "done", or the token of a claim
//	PREFIX:series:WORKSPACE        the set of its series
//	PREFIX:state:SERIES:WORKSPACE  hash: floor, announced
//	PREFIX:numbers:…               sorted set of numbers, by number
//	PREFIX:ids:…                   hash: number → id
//	PREFIX:times:…                 sorted set of numbers, by time
//	PREFIX:missing:…               hash: number → since
//	PREFIX:spaces                  the set of SERIES:WORKSPACE
//
// They expire when nothing has arrived for KeepS.
const (
	claimScript = `local p, id, token, lease, series, workspace, sequence, previous = unpack(ARGV)
local new = redis.call('SET', p..':id:'..id, token, 'NX', 'EX', lease)
if not new and redis.call('GET', p..':id:'..id) ~= 'done' then return {'busy'} end
local out = {new and 'new' or 'done'}
if series == '' then return out end
local here = series..':'..workspace
local state = redis.call('HMGET', p..':state:'..here, 'floor', 'announced')
local numbers = p..':numbers:'..here
local top = redis.call('ZREVRANGE', numbers, 0, 0)
local below = redis.call('ZREVRANGEBYSCORE', numbers, '('..previous, '-inf', 'LIMIT', 0, 1)
local earlier, other = '', ''
for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
  if s ~= series then
    if redis.call('HGET', p..':state:'..s..':'..workspace, 'floor') then earlier = '1' end
    if redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, previous) then other = '1' end
  end
end
local holder = redis.call('HGET', p..':ids:'..here, sequence)
for _, v in ipairs({state[1] or '', state[2] or '', earlier, holder or '', top[1] or '',
    redis.call('ZSCORE', numbers, previous) and '1' or '', below[1] or '',
    redis.call('HEXISTS', p..':missing:'..here, sequence) == 1 and '1' or '', other}) do
  table.insert(out, v)
end
return out
`
	finishScript = `local p, id, now, keep, series, workspace, sequence, previous, floor, announced = unpack(ARGV)
redis.call('SET', p..':id:'..id, 'done', 'EX', keep)
if series == '' then return 0 end
local here = series..':'..workspace
local state, numbers, ids = p..':state:'..here, p..':numbers:'..here, p..':ids:'..here
local times, missing = p..':times:'..here, p..':missing:'..here
if floor ~= '' then redis.call('HSETNX', state, 'floor', floor) end
if announced == '1' then redis.call('HSET', state, 'announced', 1) end
redis.call('HSETNX', state, 'known', 1)
if redis.call('HSETNX', ids, sequence, id) == 1 then
  redis.call('ZADD', numbers, sequence, sequence)
  redis.call('ZADD', times, now, sequence)
end
redis.call('HDEL', missing, sequence)
floor = tonumber(redis.call('HGET', state, 'floor') or '')
if floor and tonumber(previous) > floor and not redis.call('ZSCORE', numbers, previous) then
  redis.call('HSETNX', missing, previous, now)
end
redis.call('SADD', p..':spaces', here)
redis.call('SADD', p..':series:'..workspace, series)
for _, key in ipairs({state, numbers, ids, times, missing, p..':series:'..workspace}) do
  redis.call('EXPIRE', key, keep)
end
return 0
`
	releaseScript = `local key = ARGV[1]..':id:'..ARGV[2]
if redis.call('GET', key) == ARGV[3] then redis.call('DEL', key) end
return 0
`
	missingScript = `local p, before, series, workspace = unpack(ARGV)
local found = redis.call('HGETALL', p..':missing:'..series..':'..workspace)
local out = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) <= tonumber(before) then
    local other = ''
    for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
      if s ~= series and redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, found[i]) then
        other = '1'
      end
    end
    table.insert(out, found[i])
    table.insert(out, found[i + 1])
    table.insert(out, other)
  end
end
return out
`
	forgetScript = `local p, before, series, workspace = unpack(ARGV)
local here = series..':'..workspace
local state, numbers, times = p..':state:'..here, p..':numbers:'..here, p..':times:'..here
if redis.call('EXISTS', state) == 0 then redis.call('SREM', p..':spaces', here) return 0 end
local old = redis.call('ZRANGEBYSCORE', times, '-inf', '('..before, 'LIMIT', 0, 1000)
local floor = tonumber(redis.call('HGET', state, 'floor') or '')
for _, n in ipairs(old) do
  redis.call('ZREM', numbers, n)
  redis.call('ZREM', times, n)
  redis.call('HDEL', p..':ids:'..here, n)
  if floor and tonumber(n) > floor then
    floor = tonumber(n)
    redis.call('HSET', state, 'floor', n)
  end
end
if #old > 0 and floor then
  for _, n in ipairs(redis.call('HKEYS', p..':missing:'..here)) do
    if tonumber(n) <= floor then redis.call('HDEL', p..':missing:'..here, n) end
  end
end
return #old
`
	spacesScript = "return redis.call('SMEMBERS', ARGV[1]..':spaces')"
)

// Eval runs a script in Redis. With go-redis:
//
//	func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return client.Eval(ctx, script, keys, args...).Result()
//	}
type Eval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// RedisStore cannot take part in the transaction of your database. If the process dies after your work
// and before the event is stored as processed, Grapnel sends it again after LeaseS, and your work
// is done twice. LeaseS is longer than your work takes. Its fields may be set before its first use.
type RedisStore struct {
	Prefix        string
	KeepS, LeaseS int64
	run           Eval
}

// NewRedisStore uses one Redis or a cluster.
func NewRedisStore(run Eval) *RedisStore {
	return &RedisStore{Prefix: "{grapnel}", KeepS: KeepS, LeaseS: LeaseS, run: run}
}

// Process implements Store.
func (s *RedisStore) Process(ctx context.Context, e *Event, nowS int64, order bool, handle Handler) (Check, error) {
	return process(ctx, s, e, nowS, order, handle)
}

func (s *RedisStore) eval(ctx context.Context, script string, values ...any) (any, error) {
	args := []any{s.Prefix}
	for _, v := range values {
		args = append(args, fmt.Sprint(v))
	}
	// A key argument tells a cluster which node has all of them.
	return s.run(ctx, script, []string{s.Prefix + ":spaces"}, args...)
}

func (s *RedisStore) list(ctx context.Context, script string, values ...any) ([]string, error) {
	said, err := s.eval(ctx, script, values...)
	if err != nil {
		return nil, err
	}
	entries, ok := said.([]any)
	if !ok {
		return nil, fmt.Errorf("Redis said %T instead of a list", said)
	}
	list := make([]string, len(entries))
	for i, entry := range entries {
		list[i] = fmt.Sprint(entry)
	}
	return list, nil
}

func numbers(e *Event, numbered bool) []any {
	if !numbered {
		return []any{"", "", "", ""}
	}
	return []any{e.Series, e.Workspace, e.Sequence, e.Previous}
}

func integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // the script wrote it
	return n
}

func (s *RedisStore) claim(ctx context.Context, e *Event, token string, numbered bool, _ int64) (bool, facts, error) {
	said, err := s.list(ctx, claimScript, append([]any{e.ID, token, s.LeaseS}, numbers(e, numbered)...)...)
	if err != nil {
		return false, facts{}, err
	}
	if said[0] == "busy" {
		return false, facts{}, ErrBusy
	}
	first := said[0] == "new"
	if !numbered {
		return first, facts{}, nil
	}
	if len(said) != 10 {
		return false, facts{}, fmt.Errorf("Redis said %d values instead of 10", len(said))
	}
	f := facts{announced: said[2] == "1", earlier: said[3] == "1", holder: said[4],
		highest: integer(said[5]), hasPrevious: said[6] == "1", below: integer(said[7]),
		named: said[8] == "1", inOther: said[9] == "1"}
	if said[1] != "" {
		floor := integer(said[1])
		f.floor = &floor
	}
	return first, f, nil
}

func (s *RedisStore) release(ctx context.Context, e *Event, token string) error {
	_, err := s.eval(ctx, releaseScript, e.ID, token)
	return err
}

func (s *RedisStore) finish(ctx context.Context, e *Event, numbered bool, floor *int64, announced bool, nowS int64) error {
	values := append([]any{e.ID, nowS, s.KeepS}, numbers(e, numbered)...)
	text, flag := "", 0
	if floor != nil {
		text = strconv.FormatInt(*floor, 10)
	}
	if announced {
		flag = 1
	}
	_, err := s.eval(ctx, finishScript, append(values, text, flag)...)
	return err
}

func (s *RedisStore) each(ctx context.Context, do func(series, workspace string) error) error {
	spaces, err := s.list(ctx, spacesScript)
	for _, entry := range spaces {
		series, workspace, _ := strings.Cut(entry, ":")
		if err == nil {
			err = do(series, workspace)
		}
	}
	return err
}

// Missing implements Store.
func (s *RedisStore) Missing(ctx context.Context, beforeS int64) ([]Missing, error) {
	var found []Missing
	err := s.each(ctx, func(series, workspace string) error {
		said, err := s.list(ctx, missingScript, beforeS, series, workspace)
		for i := 0; i+2 < len(said); i += 3 {
			found = append(found, Missing{series, workspace, integer(said[i]), integer(said[i+1]),
				said[i+2] == "1"})
		}
		return err
	})
	return sorted(found), err
}

// Forget implements Store. Ids expire by themselves.
func (s *RedisStore) Forget(ctx context.Context, beforeS int64) error {
	return s.each(ctx, func(series, workspace string) error {
		for {
			said, err := s.eval(ctx, forgetScript, beforeS, series, workspace)
			if err != nil || fmt.Sprint(said) != "1000" {
				return err
			}
		}
	})
}
