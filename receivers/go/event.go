// Package receiver receives Grapnel's deliveries: it verifies the signatures, processes each event
// once, and tells whether events are missing or old.
package receiver

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// Event is a verified delivery. A field is empty if its header is absent.
type Event struct {
	ID        string
	Timestamp int64 // when this attempt was signed, in seconds since 1970
	Body      []byte
	Headers   map[string]string // those that the signature covers, in lower case

	Source, Type, Workspace, Time string
	Attempt                       int64
	Numbered                      bool // tests of an endpoint and requests for missing events are not
	Series                        string
	Sequence, Previous            int64
	SourceSequence, Gap           string
	Late, Replay                  bool
}

// JSON decodes the body into v.
func (e *Event) JSON(v any) error { return json.Unmarshal(e.Body, v) }

// Clock says how many events of each type the workspace has had (grapnel-clock).
func (e *Event) Clock() map[string]int64 {
	counts := map[string]int64{}
	for _, entry := range strings.Split(e.Headers["grapnel-clock"], ",") {
		at := strings.LastIndexByte(entry, '=')
		if at < 0 {
			continue
		}
		name, err := url.PathUnescape(entry[:at])
		count, wrong := strconv.ParseInt(entry[at+1:], 10, 64)
		if err == nil && wrong == nil {
			counts[name] = count
		}
	}
	return counts
}

// Result says what is known about an event.
type Result string

const (
	OK          Result = "ok"           // new, and no event is missing before it
	Duplicate   Result = "duplicate"    // processed before: skip it
	OldEvent    Result = "old_event"    // new, but a later event of its workspace was processed before
	GapDetected Result = "gap_detected" // new, and the event Missing has not arrived
	NewSeries   Result = "new_series"   // new, and the first one after Grapnel began to number anew
)

// Check is what a store knows about an event.
type Check struct {
	Result Result
	// The number of the previous event, if that has not arrived; also with other results. 0: none.
	Missing int64
	// The last number before Missing that has arrived: events between the two may be missing, too.
	After    int64
	Unsure   bool   // Missing has arrived in an earlier series, so it may be that event
	Filled   bool   // this event was missing until now
	Conflict string // the id of another event that has the same number
}

// First is false for a duplicate.
func (c Check) First() bool { return c.Result != Duplicate }

// Missing is a number that an event names as its previous one and that has not arrived.
type Missing struct {
	Series    string `json:"series"`
	Workspace string `json:"workspace"`
	Number    int64  `json:"number"`
	Since     int64  `json:"since"`  // when it was first named, in seconds since 1970
	Unsure    bool   `json:"unsure"` // as in Check
}

// facts are what a store has about an event that is numbered, before it stores this one.
type facts struct {
	floor       *int64 // numbers up to it are not checked; nil: no event has set it
	announced   bool   // an event of this series has been processed
	earlier     bool   // another series of this workspace is known
	holder      string // the id of the event that has this number
	highest     int64  // of the numbers that have arrived
	hasPrevious bool
	below       int64 // the highest number that is lower than previous
	named       bool  // an event has named this number as its previous one
	inOther     bool  // another series of this workspace has the number previous
}

// decide is the rule of docs/RECEIVING.md: a number that an event names as its previous one, and that
// has not arrived, is missing. first: the id is new. An event that an operator sent again is old, so
// it does not begin the numbering. Returns also what to store: floor and announced.
func decide(e *Event, first bool, f facts) (Check, *int64, bool) {
	floor := f.floor
	if floor == nil && !e.Replay {
		floor = &e.Previous
	}
	c := Check{Result: OK}
	if floor != nil && e.Previous > *floor && !f.hasPrevious {
		c = Check{Result: GapDetected, Missing: e.Previous, After: *floor, Unsure: f.inOther}
		if f.below > c.After {
			c.After = f.below
		}
	}
	switch {
	case !first:
		c.Result = Duplicate
	case f.earlier && !f.announced && !e.Replay:
		c.Result = NewSeries
	case floor == nil || e.Sequence <= *floor || e.Sequence <= f.highest:
		c.Result = OldEvent
	}
	c.Filled = f.named && f.holder == "" && f.floor != nil && e.Sequence > *f.floor
	if f.holder != e.ID {
		c.Conflict = f.holder
	}
	return c, floor, f.announced || (first && !e.Replay)
}

func plain(first bool) Check {
	if first {
		return Check{Result: OK}
	}
	return Check{Result: Duplicate}
}
