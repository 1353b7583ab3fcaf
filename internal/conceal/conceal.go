// SPDX-License-Identifier: Apache-2.0

// Package conceal takes values out of texts. Container runtimes and system calls quote the failed
// command or path, including the values of variables. A status, event or log would show the error
// to readers without permission to see the values.
package conceal

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// minLength is the length, in bytes, of the shortest value concealed wherever found. A shorter
// value is part of too many ordinary words.
const minLength = 4

// Values are texts to hide, each with its replacement. The zero value conceals nothing. Values are
// not safe for concurrent use with Add.
type Values struct {
	pairs []pair
}

type pair struct{ value, shown string }

// Variable conceals the value of a variable; the replacement is $(name). A value of less than four
// bytes is not concealed.
func (v *Values) Variable(name, value string) {
	if len(value) >= minLength {
		v.add(value, "$("+name+")")
	}
}

// Secret conceals a credential: (hidden) is shown in its place. A value of less than four bytes is
// not concealed.
func (v *Values) Secret(value string) {
	if len(value) >= minLength {
		v.add(value, "(hidden)")
	}
}

// Expanded conceals a word of any length whose references were expanded; the replacement is the
// word as written. Nothing is concealed if both are the same.
func (v *Values) Expanded(written, expanded string) {
	if written != expanded && expanded != "" {
		v.add(expanded, written)
	}
}

// add also conceals value in the form of strconv.Quote, because most errors quote in this form.
func (v *Values) add(value, shown string) {
	v.pairs = append(v.pairs, pair{value, shown})
	if quoted := strconv.Quote(value); quoted[1:len(quoted)-1] != value {
		v.pairs = append(v.pairs, pair{quoted[1 : len(quoted)-1], shown})
	}
}

// Text returns s without the values. Where values overlap, the longer is replaced first.
func (v *Values) Text(s string) string {
	if len(v.pairs) == 0 || s == "" {
		return s
	}
	sorted.Stable(v.pairs, func(a, b pair) int { return cmp.Compare(len(b.value), len(a.value)) })
	words := make([]string, 0, 2*len(v.pairs))
	for _, p := range v.pairs {
		words = append(words, p.value, p.shown)
	}
	return strings.NewReplacer(words...).Replace(s)
}

// Error returns err with a text cleaned by Text. errors.Is and errors.As work as with err. The
// result is err itself if its text contains no value.
func (v *Values) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := v.Text(text)
	if clean == text {
		return err
	}
	return &concealed{text: clean, err: err}
}

type concealed struct {
	text string
	err  error
}

func (c *concealed) Error() string { return c.text }

// Unwrap returns the original error, for errors.Is and errors.As only; its text must not be shown.
func (c *concealed) Unwrap() error { return c.err }
