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

// ErrEmptyBody tells that the body was empty and that there are therefore no pods.
var ErrEmptyBody = errors.New("the body is empty, so there are no pods")

// Error is a problem with the source's URL, in one line. It holds nothing of the body, and of the URL neither user nor
// query.
type Error struct {
	// URL is Source.URL.
	URL string
	// Err is a *StatusError, a *TransportError, an error of package manifest, or ErrEmptyBody.
	Err error
}

func (e *Error) Error() string { return e.URL + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// TransportError tells that there was no complete answer.
type TransportError struct {
	// kind is equal for errors that mean the same, though their texts tell different ports.
	kind string
	text string
	err  error
}

func (e *TransportError) Error() string { return e.text }

// Unwrap returns the error of the network, of TLS or of ctx, if it is of a type that holds no secrets; otherwise nil.
func (e *TransportError) Unwrap() error { return e.err }

// Timeout tells whether the server took too long.
func (e *TransportError) Timeout() bool { return e.kind == "timeout" }

// timeoutError is the cause of the end of a poll's context.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("no complete answer within %v", e.after) }
func (e timeoutError) Timeout() bool { return true }

// transportError makes a TransportError of what net/http returned, which repeats the whole URL, or that of a redirect.
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

// shownBytes bounds how much of a foreign error is repeated.
const shownBytes = 200

var (
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)
	address = regexp.MustCompile(`\S*://\S*`)
)

// scrub removes what may be a URL, a header or a proxy's password from the text of an error.
func scrub(text string) string {
	text = quoted.ReplaceAllString(strings.Join(strings.Fields(text), " "), `"…"`)
	text = strings.ToValidUTF8(address.ReplaceAllString(text, "…"), "?")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}
