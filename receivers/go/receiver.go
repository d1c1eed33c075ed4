package receiver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"
)

// KeepS is longer than Grapnel may send an event again, by default.
const KeepS = 40 * 86400

// ErrBusy: another attempt of this event is being processed. Respond 503 with Retry-After.
var ErrBusy = errors.New("the event is being processed")

// Handler does your work. tx is the transaction that stores the event as processed: write with it, do
// not commit. With MemoryStore and RedisStore it is nil.
type Handler func(ctx context.Context, e *Event, c Check, tx *sql.Tx) error

// Store keeps ids and numbers of events.
type Store interface {
	// Process is Receiver.Process; order is false if only duplicates matter.
	Process(ctx context.Context, e *Event, nowS int64, order bool, handle Handler) (Check, error)
	// Missing lists numbers that were first named at this time or before, the oldest first.
	Missing(ctx context.Context, beforeS int64) ([]Missing, error)
	// Forget deletes what was received before. Numbers up to the highest deleted one count as arrived.
	Forget(ctx context.Context, beforeS int64) error
}

// Receiver verifies requests, and processes their events once. Its fields may be set before its
// first use.
type Receiver struct {
	Store      Store
	ToleranceS int64 // how far webhook-timestamp may be from this machine's clock
	NoOrder    bool  // only deduplicate: then events of a workspace do not wait for each other
	MaxBody    int64 // of Handler, in bytes: at least ingress.max_body of Grapnel
	Now        func() time.Time

	keys []key
}

// New: secrets are those of the endpoint, "whsec_…" or "whpk_…"; two or more while you change one.
func New(store Store, secrets ...string) (*Receiver, error) {
	if len(secrets) == 0 {
		return nil, errors.New("a receiver needs at least one secret")
	}
	r := &Receiver{Store: store, ToleranceS: 300, MaxBody: 1 << 20}
	for _, secret := range secrets {
		k, err := newKey(secret)
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, k)
	}
	return r, nil
}

func (r *Receiver) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Receive is Verify and Process.
func (r *Receiver) Receive(ctx context.Context, h http.Header, body []byte, handle Handler) (Check, error) {
	e, err := r.Verify(h, body)
	if err != nil {
		return Check{}, err
	}
	return r.Process(ctx, e, handle)
}

// Process calls handle unless the event is a duplicate, and stores the event as processed. If handle
// returns an error or panics, nothing is stored.
func (r *Receiver) Process(ctx context.Context, e *Event, handle Handler) (Check, error) {
	return r.Store.Process(ctx, e, r.now().Unix(), !r.NoOrder, handle)
}

// Check stores the event in the transaction that you have begun, and leaves it open. Commit after your
// work; roll back after an error.
func (r *Receiver) Check(ctx context.Context, e *Event, tx *sql.Tx) (Check, error) {
	s, ok := r.Store.(*SQLStore)
	if !ok {
		return Check{}, fmt.Errorf("%T cannot join your transaction: call Process", r.Store)
	}
	return s.check(ctx, e, r.now().Unix(), !r.NoOrder, tx)
}

// Missing lists events that were named, but have not arrived for this long.
func (r *Receiver) Missing(ctx context.Context, older time.Duration) ([]Missing, error) {
	return r.Store.Missing(ctx, r.now().Add(-older).Unix())
}

// Forget deletes what is older than KeepS. Call it once a day.
func (r *Receiver) Forget(ctx context.Context) error {
	return r.Store.Forget(ctx, r.now().Unix()-KeepS)
}

// Handler responds to Grapnel's requests. 204: processed, or a duplicate. 401: a wrong signature. 413:
// the body is too large. 503: handle or the store failed, and Grapnel sends the event again.
func (r *Receiver) Handler(handle Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPost && request.Method != http.MethodPut {
			w.Header().Set("Allow", "POST, PUT")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.WriteHeader(r.respond(w.Header(), request, handle))
	})
}

func (r *Receiver) respond(out http.Header, request *http.Request, handle Handler) int {
	body, err := io.ReadAll(io.LimitReader(request.Body, r.MaxBody+1))
	if err != nil {
		return http.StatusBadRequest // the client has gone
	}
	if int64(len(body)) > r.MaxBody {
		return http.StatusRequestEntityTooLarge
	}
	_, err = r.Receive(request.Context(), request.Header, body, handle)
	var refused *VerificationError
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.As(err, &refused):
		log.Printf("grapnel: refused a request: %v", err)
		return http.StatusUnauthorized
	case errors.Is(err, ErrBusy):
		out.Set("Retry-After", "10")
	default:
		log.Printf("grapnel: an event was not processed; Grapnel sends it again: %v", err)
	}
	return http.StatusServiceUnavailable
}
