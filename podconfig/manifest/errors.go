// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sentinels wrapped by an *Error, and ErrDecoder, returned by Decoder.Check.
var (
	// ErrEmpty means a manifest without content: no bytes, white space, comments, or null.
	ErrEmpty = errors.New("manifest is empty")
	// ErrTooLarge means a manifest with more bytes, values or nesting than a pod can need.
	ErrTooLarge = errors.New("manifest is too large")
	// ErrNotText means a manifest with bytes invalid in YAML and JSON.
	ErrNotText = errors.New("manifest is not a text file")
	// ErrSyntax means a text that is neither YAML nor JSON.
	ErrSyntax = errors.New("not valid YAML")
	// ErrDocuments means a manifest with more than one document.
	ErrDocuments = errors.New("more than one document, and one is expected")
	// ErrNotPod means a document of another kind.
	ErrNotPod = errors.New("not a Pod")
	// ErrDecoder means an invalid Decoder; see Decoder.Check.
	ErrDecoder = errors.New("manifest decoder is misconfigured")
)

const (
	// listedProblems limits the problems in an error's text. Error.Problems holds all.
	listedProblems = 10
	// shownBytes limits the part of a value in an error.
	shownBytes = 64
)

// Problem is a fault of a manifest.
type Problem struct {
	// Position is the position of the fault. It is unknown for a fault of the whole manifest, and
	// for problems not listed by Error.Error.
	Position Position
	// Field is the path of the field in the notation of field.Path. It is "" for a fault of the
	// text.
	Field string
	// Text states the expected value, the found value and the remedy. It contains no values that
	// could be secret (environment, annotations, arguments, headers).
	Text string
	// Err is one of the sentinels, a *field.Error, a *ReferenceError, or the error of
	// Decoder.Policy. It is nil for a field with a wrong type, an unknown field and a duplicate
	// key.
	Err error

	isKey bool // the fault is in the key of Field, not in its value
}

// String returns "line:column: field: text" without unknown parts.
func (p Problem) String() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{p.Position.String(), p.Field, p.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Error holds all problems of a manifest. Its text is a single line and begins with the position of
// the first problem, if known. With a path and a colon before the text, the line begins with
// "file:line:column".
type Error struct {
	// Problems has at least one element, and is ordered by field path.
	Problems []Problem
}

// Error returns up to ten problems in a single line.
func (e *Error) Error() string {
	listed := e.Problems[:min(len(e.Problems), listedProblems)]
	texts := make([]string, len(listed))
	for i, p := range listed {
		texts[i] = p.String()
	}
	text := strings.Join(texts, "; ")
	if more := len(e.Problems) - len(listed); more > 0 {
		text = fmt.Sprintf("%s; and %d more", text, more)
	}
	return text
}

// Unwrap returns the errors of all problems.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, p := range e.Problems {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	return errs
}

// Position returns the position of the first problem.
func (e *Error) Position() Position { return e.Problems[0].Position }

// problem returns the error for a fault of the whole text; detail may be empty.
func problem(at Position, sentinel error, detail string) error {
	text := sentinel.Error()
	if detail != "" {
		text += ": " + detail
	}
	return &Error{Problems: []Problem{{Position: at, Text: text, Err: sentinel}}}
}

// fieldProblems returns a problem for each error of a validation.
func fieldProblems(errs field.ErrorList) []Problem {
	problems := make([]Problem, len(errs))
	for i, err := range errs {
		problems[i] = Problem{Field: err.Field, Text: oneLine(err.ErrorBody()), Err: err}
	}
	return problems
}

// shorten limits a value from a manifest to shownBytes.
func shorten(s string) string { return cutTo(s, shownBytes) }

func cutTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// oneLine replaces all white space of a text by single spaces.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
