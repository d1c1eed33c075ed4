package receiver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const signaturesMax = 32 // of one header: a stranger must not make us verify hundreds

// VerificationError: the request is not from your Grapnel, or not as Grapnel sent it. Respond 401.
type VerificationError struct{ Reason string }

func (e *VerificationError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &VerificationError{fmt.Sprintf(format, args...)}
}

type key func(version, signature string, content []byte) bool

func newKey(secret string) (key, error) {
	at := strings.IndexByte(secret, '_')
	prefix, text := secret[:at+1], secret[at+1:]
	switch prefix {
	case "whsec_", "whpk_":
	case "whsk_":
		return nil, errors.New("whsk_… is the private key, which only Grapnel needs; give the " +
			"receiver the public key, whpk_…")
	default:
		return nil, errors.New("a secret begins with whsec_ or whpk_")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) == 0 {
		return nil, fmt.Errorf("after %s a secret has base64; this one has not", prefix)
	}
	if prefix == "whsec_" {
		return func(version, signature string, content []byte) bool {
			mac := hmac.New(sha256.New, data)
			mac.Write(content)
			want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
			return version == "v1" && hmac.Equal([]byte(signature), []byte(want))
		}, nil
	}
	if len(data) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("a key whpk_… has 32 bytes; this one has %d", len(data))
	}
	return func(version, signature string, content []byte) bool {
		got, err := base64.StdEncoding.DecodeString(signature)
		return version == "v1a" && err == nil && len(got) == ed25519.SignatureSize &&
			ed25519.Verify(data, content, got)
	}, nil
}

// isSigned tries each key with each signature, so the time does not tell which one was right.
func (r *Receiver) isSigned(value string, content []byte) (bool, error) {
	signatures := strings.Split(value, " ")
	if len(signatures) > signaturesMax {
		return false, refuse("a header has more than %d signatures", signaturesMax)
	}
	good := false
	for _, s := range signatures {
		version, text, _ := strings.Cut(s, ",")
		for _, k := range r.keys {
			good = k(version, text, content) || good
		}
	}
	return good, nil
}

func (r *Receiver) mustBeSigned(name string, h http.Header, content []byte) error {
	value, err := one(h, name)
	if err != nil {
		return err
	}
	good, err := r.isSigned(value, content)
	if err == nil && !good {
		err = refuse("%s is wrong", name)
	}
	return err
}

func one(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) != 1 {
		return "", refuse("the request has %d headers %s, not one", len(values), name)
	}
	return strings.Trim(values[0], " \t"), nil
}

var digits = regexp.MustCompile(`^[0-9]{1,12}$`)

// VerifyStandard is for requests without grapnel-signature, such as alerts: the event has no other
// fields than ID, Timestamp and Body.
func (r *Receiver) VerifyStandard(h http.Header, body []byte) (*Event, error) {
	text, err := one(h, "webhook-timestamp")
	if err != nil {
		return nil, err
	}
	if !digits.MatchString(text) {
		return nil, refuse("webhook-timestamp is not a number")
	}
	timestamp, _ := strconv.ParseInt(text, 10, 64)
	off := r.now().Unix() - timestamp
	if off > r.ToleranceS || -off > r.ToleranceS {
		return nil, refuse("webhook-timestamp is more than %d s from this machine's clock",
			r.ToleranceS)
	}
	id, err := one(h, "webhook-id")
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, refuse("webhook-id is empty")
	}
	content := append([]byte(id+"."+text+"."), body...)
	if err = r.mustBeSigned("webhook-signature", h, content); err != nil {
		return nil, err
	}
	return &Event{ID: id, Timestamp: timestamp, Body: body, Attempt: 1,
		Headers: map[string]string{}}, nil
}

// Verify checks both signatures. body: the bytes, before any parser has changed them. An error is a
// *VerificationError.
func (r *Receiver) Verify(h http.Header, body []byte) (*Event, error) {
	e, err := r.VerifyStandard(h, body)
	if err != nil {
		return nil, err
	}
	var ours []string
	for name, values := range h {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "grapnel-") || lower == "grapnel-signature" {
			continue
		}
		for _, v := range values {
			v = strings.Trim(v, " \t")
			ours = append(ours, lower+" "+v+"\n")
			e.Headers[lower] = v
		}
	}
	sort.Strings(ours)
	stamp, _ := one(h, "webhook-timestamp")
	digest := sha256.Sum256(body)
	var content bytes.Buffer
	fmt.Fprintf(&content, "grapnel-signature v1\nwebhook-id %s\nwebhook-timestamp %s\n"+
		"body-sha256 %s\n%s", e.ID, stamp, hex.EncodeToString(digest[:]), strings.Join(ours, ""))
	if err = r.mustBeSigned("grapnel-signature", h, content.Bytes()); err != nil {
		return nil, err
	}
	return e, e.fill()
}

func (e *Event) fill() error {
	h, err := e.Headers, error(nil)
	number := func(name string) int64 {
		n, wrong := strconv.ParseInt(h[name], 10, 64)
		if wrong != nil || n < 0 {
			err = refuse("%s is not a number", name)
		}
		return n
	}
	e.Source, e.Type, e.Workspace = h["grapnel-source"], h["grapnel-type"], h["grapnel-workspace"]
	e.Time, e.Gap, e.Series = h["grapnel-time"], h["grapnel-gap"], h["grapnel-series"]
	e.SourceSequence = h["grapnel-source-sequence"]
	_, e.Late = h["grapnel-late"]
	_, e.Replay = h["grapnel-replay"]
	if _, there := h["grapnel-attempt"]; there {
		e.Attempt = number("grapnel-attempt")
	}
	if _, e.Numbered = h["grapnel-sequence"]; e.Numbered {
		for _, name := range []string{"series", "previous", "workspace"} {
			if _, there := h["grapnel-"+name]; !there {
				return refuse("grapnel-sequence came without series, previous or workspace")
			}
		}
		e.Sequence, e.Previous = number("grapnel-sequence"), number("grapnel-previous")
	}
	return err
}
