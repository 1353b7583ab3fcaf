// SPDX-License-Identifier: Apache-2.0

package url

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	neturl "net/url"
	"regexp"
	"strings"
	"time"
)

// ErrEmptyBody means that the body was empty, so that there are no pods.
var ErrEmptyBody = errors.New("the body is empty, so there are no pods")

// Error is a problem with the source's URL, in a single line. It contains neither the body nor the
// user and query of the URL.
type Error struct {
	// URL is Source.URL.
	URL string
	// Err is a *StatusError, a *TransportError, a *manifest.Error, or ErrEmptyBody.
	Err error
}

func (e *Error) Error() string { return e.URL + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// TransportError means that no complete answer arrived.
type TransportError struct {
	// kind is equal for equivalent errors, even if their texts differ in ports.
	kind string
	text string
	err  error
}

func (e *TransportError) Error() string { return e.text }

// Unwrap returns the error of the network, of TLS or of ctx, if its type contains no secrets;
// otherwise nil.
func (e *TransportError) Unwrap() error { return e.err }

// Timeout reports whether the server took too long.
func (e *TransportError) Timeout() bool { return e.kind == "timeout" }

// timeoutError is the cause of a poll context's deadline.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("no complete answer within %v", e.after) }
func (e timeoutError) Timeout() bool { return true }

// transportError converts an error of net/http to a TransportError. Errors of net/http contain the
// whole URL, or the URL of a redirect.
func transportError(err error) error {
	if wrapper, ok := errors.AsType[*neturl.Error](err); ok {
		err = wrapper.Err
	}
	if timeout, ok := errors.AsType[timeoutError](err); ok {
		return &TransportError{kind: "timeout", text: timeout.Error(), err: context.DeadlineExceeded}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return &TransportError{kind: "timeout", text: "no complete answer in time", err: context.DeadlineExceeded}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return &TransportError{kind: "dns", text: dns.Error(), err: dns}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return &TransportError{kind: op.Op + ": " + scrub(op.Err.Error()), text: op.Error(), err: op}
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &TransportError{kind: "certificate", text: scrub(cert.Error()), err: cert}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &TransportError{kind: "cut", text: "the connection ended before the answer did", err: io.ErrUnexpectedEOF}
	}
	return &TransportError{kind: scrub(err.Error()), text: scrub(err.Error())}
}

// shownBytes limits the text of a foreign error.
const shownBytes = 200

var (
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)
	address = regexp.MustCompile(`\S*://\S*`)
)

// scrub removes URLs, headers and proxy passwords from the text of an error.
func scrub(text string) string {
	text = quoted.ReplaceAllString(strings.Join(strings.Fields(text), " "), `"…"`)
	text = strings.ToValidUTF8(address.ReplaceAllString(text, "…"), "?")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}
