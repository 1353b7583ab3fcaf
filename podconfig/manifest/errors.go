// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sentinels wrapped by what Decoder.Pod and Decoder.Pods return. Every error's text is one line, names the field where
// there is one, and holds no value that could be a secret (environment, annotations, arguments).
var (
	// ErrEmpty is a manifest without content: no bytes, white space, comments, or null.
	ErrEmpty = errors.New("manifest is empty")
	// ErrTooLarge is a manifest whose bytes, values or nesting exceed what a pod can need.
	ErrTooLarge = errors.New("manifest is too large")
	// ErrNotText is a manifest with bytes that no YAML or JSON text has.
	ErrNotText = errors.New("manifest is not a text file")
	// ErrSyntax is text that is neither YAML nor JSON.
	ErrSyntax = errors.New("not valid YAML")
	// ErrDocuments is a manifest with more than one document.
	ErrDocuments = errors.New("more than one document, and one is expected")
	// ErrNotPod is a document of another kind.
	ErrNotPod = errors.New("not a Pod")
	// ErrDecoder is a Decoder that cannot work; see Decoder.Check.
	ErrDecoder = errors.New("manifest decoder is misconfigured")
)

const (
	// listedProblems bounds how many problems an error's text lists; the errors themselves hold all.
	listedProblems = 10
	// shownBytes bounds how much of a value an error repeats.
	shownBytes = 64
)

// StructureError tells that a document does not have the shape of a v1.Pod: wrong types, and for a strict Decoder
// unknown fields and duplicate keys.
type StructureError struct {
	// Problems holds one text each, ordered by field path.
	Problems []string
}

// Error lists the problems in one line.
func (e *StructureError) Error() string { return joinProblems(e.Problems) }

// InvalidError tells that a pod has the right shape and values that make no sense.
type InvalidError struct {
	// Errs holds every problem with its exact field path.
	Errs field.ErrorList
}

// Error lists the problems in one line.
func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		texts[i] = oneLine(err.Error())
	}
	return "invalid pod: " + joinProblems(texts)
}

// Unwrap gives access to the single errors.
func (e *InvalidError) Unwrap() []error {
	errs := make([]error, len(e.Errs))
	for i, err := range e.Errs {
		errs[i] = err
	}
	return errs
}

func joinProblems(texts []string) string {
	if more := len(texts) - listedProblems; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(texts[:listedProblems], "; "), more)
	}
	return strings.Join(texts, "; ")
}

// shorten cuts a value from a manifest to what an error may repeat.
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

// oneLine makes sure that a text from elsewhere keeps to one line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
