package receiver

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// GRAPNEL_TEST_POSTGRES (postgresql://…) and GRAPNEL_TEST_REDIS (unix://…) name servers whose data the
// tests may delete. With the build tag `drivers`, drivers_test.go has drivers for them and SQLite.
var (
	openPostgres func(uri string) (*sql.DB, error)
	openSQLite   func(path string) (*sql.DB, error)
	ctx          = context.Background()
)

type request struct {
	Name            string
	Valid, Standard bool
	Keys            []string
	Now             int64
	Headers         [][2]string
	Body            []byte `json:"body_base64"`
}

type delivery struct {
	request
	Result         string
	Missing, After *int64
	Unsure, Filled bool
	Conflict       *string
}

type scenario struct {
	Name, Key  string
	Now        int64
	Deliveries []delivery
	Missing    [][4]any
}

var vectors struct {
	Requests []request
	Order    []scenario
}

func init() {
	text, err := os.ReadFile("../vectors.json")
	if err == nil {
		err = json.Unmarshal(text, &vectors)
	}
	if err != nil {
		panic(err)
	}
}

func (r request) header() http.Header {
	h := http.Header{}
	for _, pair := range r.Headers {
		h.Add(pair[0], pair[1])
	}
	return h
}

func numbered(name string, n int) request {
	for _, s := range vectors.Order {
		if s.Name == name {
			return s.Deliveries[n].request
		}
	}
	panic(name)
}

func opened(t *testing.T, store Store) (*Receiver, *int64) {
	t.Helper()
	r, err := New(store, vectors.Order[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	now := vectors.Order[0].Now
	r.Now = func() time.Time { return time.Unix(now, 0) }
	r.ToleranceS = 1e9
	return r, &now
}

func nothing(context.Context, *Event, Check, *sql.Tx) error { return nil }

func take(t *testing.T, r *Receiver, name string, n int) Check {
	t.Helper()
	q := numbered(name, n)
	calls := 0
	c, err := r.Receive(ctx, q.header(), q.Body, func(_ context.Context, _ *Event, got Check, _ *sql.Tx) error {
		calls++
		return nil
	})
	if err != nil || (calls == 1) != c.First() {
		t.Fatalf("%s %d: %v, %d calls, %v", name, n, err, calls, c)
	}
	return c
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEveryRequest(t *testing.T) {
	for _, v := range vectors.Requests {
		r, err := New(nil, v.Keys...)
		if err != nil {
			t.Fatal(err)
		}
		r.Now = func() time.Time { return time.Unix(v.Now, 0) }
		verify := r.Verify
		if v.Standard {
			verify = r.VerifyStandard
		}
		e, err := verify(v.header(), v.Body)
		var refused *VerificationError
		if v.Valid != (err == nil) || (err != nil && !errors.As(err, &refused)) {
			t.Errorf("%s: %v", v.Name, err)
		}
		if v.Valid && (e.ID != v.header().Get("webhook-id") || !bytes.Equal(e.Body, v.Body)) {
			t.Errorf("%s: %v", v.Name, e)
		}
		if v.Name == "every header" {
			expect(t, []any{e.Source, e.Type, e.Workspace, e.Attempt, e.Series, e.Sequence, e.Previous,
				e.SourceSequence, e.Gap, e.Late, e.Replay, e.Time, e.Clock()},
				[]any{"plane", "issue.updated", "demo", int64(2), "11400714819323198485", int64(19),
					int64(17), "6", "3-5", true, true, "2026-11-21T13:09:13.021Z",
					map[string]int64{"issue.created": 7, "issue.updated": 12}})
		}
	}
}

func TestWrongSecretsAreRefusedAtTheStart(t *testing.T) {
	for _, secret := range []string{"secret", "", "whsec_?", "whsec_", "whsk_AAAA", "whpk_AAAA"} {
		if _, err := New(nil, secret); err == nil {
			t.Errorf("%q was accepted", secret)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("a receiver without a secret")
	}
}

func TestHundredsOfSignaturesAreRefused(t *testing.T) {
	q, h := numbered("in order", 0), numbered("in order", 0).header()
	h.Set("webhook-signature", strings.TrimSpace(strings.Repeat(h.Get("webhook-signature")+" ", 33)))
	r, _ := opened(t, nil)
	if _, err := r.Verify(h, q.Body); err == nil || !strings.Contains(err.Error(), "more than 32") {
		t.Error(err)
	}
}

// fresh returns an empty store, and runs a statement; nil: there are no transactions.
type fresh func(t *testing.T) (Store, *sql.DB)

// all is what all stores do.
func all(t *testing.T, open fresh) {
	for _, s := range vectors.Order {
		t.Run(s.Name, func(t *testing.T) {
			store, _ := open(t)
			r, _ := opened(t, store)
			for i, d := range s.Deliveries {
				want := Check{Result: Result(d.Result), Unsure: d.Unsure, Filled: d.Filled}
				if d.Missing != nil {
					want.Missing, want.After = *d.Missing, *d.After
				}
				if d.Conflict != nil {
					want.Conflict = *d.Conflict
				}
				expect(t, take(t, r, s.Name, i), want)
			}
			missing, err := r.Missing(ctx, 0)
			if err != nil || len(missing) != len(s.Missing) {
				t.Fatal(err, missing)
			}
			for i, m := range missing {
				expect(t, [4]any{m.Series, m.Workspace, float64(m.Number), m.Unsure}, s.Missing[i])
			}
		})
	}
	t.Run("stores nothing after an error or a panic", func(t *testing.T) {
		store, _ := open(t)
		r, _ := opened(t, store)
		fails := errors.New("of the handler")
		for _, n := range []int{0, 0, 2} {
			q := numbered("a loss", n)
			_, err := r.Receive(ctx, q.header(), q.Body, func(context.Context, *Event, Check, *sql.Tx) error {
				return fails
			})
			if !errors.Is(err, fails) {
				t.Fatal(err)
			}
		}
		func() {
			defer func() { expect(t, recover(), "of the handler") }()
			q := numbered("a loss", 0)
			r.Receive(ctx, q.header(), q.Body, func(context.Context, *Event, Check, *sql.Tx) error {
				panic("of the handler")
			})
		}()
		expect(t, take(t, r, "a loss", 0).Result, OK)
		expect(t, take(t, r, "a loss", 1).Result, OK)
		missing, err := r.Missing(ctx, 0)
		expect(t, []int{len(missing), 0}, []int{0, 0})
		expect(t, err, nil)
	})
	t.Run("only deduplicates, if asked", func(t *testing.T) {
		store, _ := open(t)
		r, _ := opened(t, store)
		r.NoOrder = true
		for i, want := range []Result{OK, OK, Duplicate} {
			expect(t, take(t, r, "a loss", []int{0, 2, 2}[i]).Result, want)
		}
	})
	t.Run("waits before it calls an event missing, and forgets", func(t *testing.T) {
		store, _ := open(t)
		r, now := opened(t, store)
		start := *now
		missing := func(olderS int64) []Missing {
			found, err := r.Missing(ctx, time.Duration(olderS)*time.Second)
			expect(t, err, nil)
			return found
		}
		take(t, r, "a loss", 0)
		*now += 10
		take(t, r, "a loss", 2)
		*now += 100
		three := []Missing{{"1", "w", 3, start + 10, false}}
		expect(t, len(missing(101)), 0)
		expect(t, missing(100), three)
		expect(t, store.Forget(ctx, start+9), nil)
		expect(t, missing(0), three)
		expect(t, store.Forget(ctx, start+11), nil) // raises the floor to 4
		expect(t, len(missing(0)), 0)
		expect(t, take(t, r, "a loss", 3).Result, OK)
	})
	t.Run("the same event twice at once", func(t *testing.T) {
		store, _ := open(t)
		r, _ := opened(t, store)
		q := numbered("in order", 0)
		inside, release, second := make(chan bool), make(chan bool), make(chan any, 1)
		first := make(chan any, 1)
		go func() {
			c, err := r.Receive(ctx, q.header(), q.Body, func(context.Context, *Event, Check, *sql.Tx) error {
				close(inside)
				<-release
				return nil
			})
			first <- fmt.Sprintf("%s %v", c.Result, err)
		}()
		<-inside
		go func() {
			c, err := r.Receive(ctx, q.header(), q.Body, nothing)
			second <- fmt.Sprintf("%s %v", c.Result, err)
		}()
		time.Sleep(100 * time.Millisecond)
		close(release)
		expect(t, <-first, "ok <nil>")
		if said := <-second; said != "duplicate <nil>" && said != " "+ErrBusy.Error() {
			t.Error(said)
		}
		expect(t, take(t, r, "in order", 0).Result, Duplicate)
	})
}

func TestMemory(t *testing.T) {
	all(t, func(*testing.T) (Store, *sql.DB) { return NewMemoryStore(), nil })
	store := NewMemoryStore()
	store.KeepS = 100
	r, now := opened(t, store)
	take(t, r, "a loss", 0)
	*now += 101
	take(t, r, "a loss", 3)
	expect(t, []int{len(store.ids), len(store.order), len(store.spaces[[2]string{"w", "1"}].arrived)},
		[]int{1, 1, 1})
	if _, err := r.Check(ctx, &Event{}, nil); err == nil {
		t.Error("it joined a transaction")
	}
}

// inSQL is what stores with transactions do beside that. reopen: the same database for another process.
func inSQL(t *testing.T, open fresh, name string, place func() string) {
	all(t, open)
	work := func(_ context.Context, e *Event, _ Check, tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO work VALUES ('x')")
		return err
	}
	count := func(db *sql.DB) (n int) {
		expect(t, db.QueryRow("SELECT count(*) FROM work").Scan(&n), nil)
		return n
	}
	t.Run("joins the transaction of the caller", func(t *testing.T) {
		store, db := open(t)
		r, _ := opened(t, store)
		q := numbered("in order", 0)
		e, err := r.Verify(q.header(), q.Body)
		expect(t, err, nil)
		for i, want := range []Result{OK, OK, Duplicate} {
			tx, err := db.Begin()
			expect(t, err, nil)
			c, err := r.Check(ctx, e, tx)
			expect(t, []any{c.Result, err}, []any{want, nil})
			expect(t, work(ctx, e, c, tx), nil)
			if i == 1 {
				tx.Commit()
			} else {
				tx.Rollback()
			}
		}
		expect(t, count(db), 1)
	})
	t.Run("a kill between work and commit leaves neither", func(t *testing.T) {
		store, db := open(t)
		child := exec.Command(os.Args[0], "-test.run=^TestDie$")
		child.Env = append(os.Environ(), "GRAPNEL_TEST_DIE="+name, "GRAPNEL_TEST_PLACE="+place())
		said, err := child.CombinedOutput()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%v %s", err, said)
		}
		expect(t, count(db), 0)
		r, _ := opened(t, store)
		q := numbered("in order", 0)
		c, err := r.Receive(ctx, q.header(), q.Body, work)
		expect(t, []any{c.Result, err, count(db)}, []any{OK, nil, 1})
	})
	t.Run("an older event waits for the newer one", func(t *testing.T) {
		store, _ := open(t)
		r, _ := opened(t, store)
		const name = "a loss, sent again"
		take(t, r, name, 0)
		inside, release, order := make(chan bool), make(chan bool), make(chan Result, 2)
		run := func(n int, handle Handler) {
			q := numbered(name, n)
			c, err := r.Receive(ctx, q.header(), q.Body, handle)
			expect(t, err, nil)
			order <- c.Result
		}
		go run(1, func(context.Context, *Event, Check, *sql.Tx) error {
			close(inside)
			<-release
			return nil
		})
		<-inside
		go run(3, nothing)
		select {
		case early := <-order:
			t.Error("it did not wait: ", early)
		case <-time.After(100 * time.Millisecond):
		}
		close(release)
		got := map[Result]bool{<-order: true, <-order: true}
		expect(t, got, map[Result]bool{GapDetected: true, OldEvent: true})
	})
}

// TestDie is another process, which dies after its work.
func TestDie(t *testing.T) {
	var store *SQLStore
	place := os.Getenv("GRAPNEL_TEST_PLACE")
	switch os.Getenv("GRAPNEL_TEST_DIE") {
	case "postgres":
		db, _ := openPostgres(place)
		store = NewPostgresStore(db)
	case "sqlite":
		db, _ := openSQLite(place)
		store = NewSQLiteStore(db)
	default:
		t.Skip("it is for another test")
	}
	r, _ := opened(t, store)
	q := numbered("in order", 0)
	r.Receive(ctx, q.header(), q.Body, func(_ context.Context, _ *Event, _ Check, tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO work VALUES ('x')"); err != nil {
			return err
		}
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	})
}

func TestSQLite(t *testing.T) {
	if openSQLite == nil {
		t.Skip("without the build tag `drivers`")
	}
	var path string
	files := 0
	inSQL(t, func(t *testing.T) (Store, *sql.DB) {
		files++
		path = filepath.Join(t.TempDir(), strconv.Itoa(files)+".db")
		db, err := openSQLite(path)
		expect(t, err, nil)
		t.Cleanup(func() { db.Close() })
		return emptied(t, NewSQLiteStore(db), db), db
	}, "sqlite", func() string { return path })
}

func TestPostgres(t *testing.T) {
	uri := os.Getenv("GRAPNEL_TEST_POSTGRES")
	if openPostgres == nil || uri == "" {
		t.Skip("without the build tag `drivers`, or GRAPNEL_TEST_POSTGRES is not set")
	}
	inSQL(t, func(t *testing.T) (Store, *sql.DB) {
		db, err := openPostgres(uri)
		expect(t, err, nil)
		t.Cleanup(func() { db.Close() })
		return emptied(t, NewPostgresStore(db), db), db
	}, "postgres", func() string { return uri })
}

func emptied(t *testing.T, s *SQLStore, db *sql.DB) Store {
	for _, table := range []string{"work", "grapnel_events", "grapnel_series", "grapnel_numbers"} {
		_, err := db.Exec("DROP TABLE IF EXISTS " + table)
		expect(t, err, nil)
	}
	_, err := db.Exec("CREATE TABLE work (id TEXT)")
	expect(t, err, nil)
	for i := 0; i < 2; i++ {
		expect(t, s.CreateTables(ctx), nil)
	}
	return s
}

// redis is a client of as much of Redis' protocol as a script needs.
func redis(path string) Eval {
	return func(_ context.Context, script string, keys []string, args ...any) (any, error) {
		connection, err := net.Dial("unix", path)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		words := []any{"EVAL", script, len(keys)}
		for _, k := range keys {
			words = append(words, k)
		}
		words = append(words, args...)
		fmt.Fprintf(connection, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(connection, "$%d\r\n%v\r\n", len(fmt.Sprint(w)), w)
		}
		return reply(bufio.NewReader(connection))
	}
}

func reply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	n, _ := strconv.Atoi(text)
	switch line[0] {
	case '-':
		return nil, errors.New(text)
	case ':':
		return int64(n), nil
	case '$':
		data := make([]byte, n+2)
		_, err = io.ReadFull(in, data)
		return string(data[:n]), err
	case '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = reply(in); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return text, nil
}

func TestRedis(t *testing.T) {
	uri := os.Getenv("GRAPNEL_TEST_REDIS")
	if uri == "" {
		t.Skip("GRAPNEL_TEST_REDIS is not set")
	}
	run := redis(strings.TrimPrefix(uri, "unix://"))
	empty := func() *RedisStore {
		_, err := run(ctx, "return redis.call('FLUSHALL')", nil)
		expect(t, err, nil)
		return NewRedisStore(run)
	}
	all(t, func(*testing.T) (Store, *sql.DB) { return empty(), nil })
	t.Run("a claim of a dead process ends", func(t *testing.T) {
		store := empty()
		store.LeaseS = 1
		e := &Event{ID: numbered("in order", 0).header().Get("webhook-id")}
		_, _, err := store.claim(ctx, e, "of a dead one", false, 0)
		expect(t, err, nil)
		r, _ := opened(t, store)
		q := numbered("in order", 0)
		_, err = r.Receive(ctx, q.header(), q.Body, nothing)
		expect(t, err, ErrBusy)
		for errors.Is(err, ErrBusy) {
			_, err = r.Receive(ctx, q.header(), q.Body, nothing)
		}
		expect(t, err, nil)
		expect(t, take(t, r, "in order", 0).Result, Duplicate)
	})
}

func TestHandler(t *testing.T) {
	store := NewMemoryStore()
	r, _ := opened(t, store)
	r.MaxBody = 100
	fails := errors.New("of the handler")
	server := httptest.NewServer(r.Handler(func(context.Context, *Event, Check, *sql.Tx) error { return fails }))
	defer server.Close()
	ask := func(method string, body []byte) *http.Response {
		request, _ := http.NewRequest(method, server.URL, bytes.NewReader(body))
		request.Header = numbered("in order", 0).header()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	body := numbered("in order", 0).Body
	expect(t, ask("POST", body).StatusCode, 503)
	fails = nil
	expect(t, ask("POST", body).StatusCode, 204)
	expect(t, ask("PUT", body).StatusCode, 204)
	expect(t, ask("POST", append(body, ' ')).StatusCode, 401)
	expect(t, ask("POST", make([]byte, 101)).StatusCode, 413)
	expect(t, ask("GET", nil).StatusCode, 405)
	store.ids = map[string]bool{}
	store.claimed[numbered("in order", 0).header().Get("webhook-id")] = true
	busy := ask("POST", body)
	expect(t, []any{busy.StatusCode, busy.Header.Get("Retry-After")}, []any{503, "10"})
}
