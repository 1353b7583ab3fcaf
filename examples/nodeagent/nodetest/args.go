// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// args has the words after the name of a command. Each method takes words and records errors. err
// joins the errors and reports words that no method has taken.
type args struct {
	words []string
	errs  []error
}

func (a *args) fail(format string, values ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, values...))
}

// err returns nil if all words were taken without an error.
func (a *args) err() error {
	if len(a.errs) == 0 && len(a.words) > 0 {
		a.fail("%q is not expected here", a.words[0])
	}
	return errors.Join(a.errs...)
}

// next takes the next word. what is the name of the word in errors.
func (a *args) next(what string) string {
	if len(a.words) == 0 {
		a.fail("%s is missing", what)
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// rest takes all remaining words.
func (a *args) rest() []string {
	w := a.words
	a.words = nil
	return w
}

// option takes the first word of the form key=value, at any position.
func (a *args) option(key string) (value string, ok bool) {
	for i, w := range a.words {
		if k, v, has := strings.Cut(w, "="); has && k == key {
			a.words = slices.Delete(slices.Clone(a.words), i, i+1)
			return v, true
		}
	}
	return "", false
}

// flag takes a word at any position.
func (a *args) flag(word string) bool {
	i := slices.Index(a.words, word)
	if i < 0 {
		return false
	}
	a.words = slices.Delete(slices.Clone(a.words), i, i+1)
	return true
}

// duration takes an option with a duration, at most a year.
func (a *args) duration(key string) time.Duration {
	v, ok := a.option(key)
	if !ok {
		return 0
	}
	return a.toDuration(v)
}

const maxDuration = 366 * 24 * time.Hour

func (a *args) toDuration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 || d > maxDuration {
		a.fail("%q is no duration of at most a year, such as 1m30s", word)
	}
	return d
}

// number takes an option with a number.
func (a *args) number(key string, otherwise int) int {
	v, ok := a.option(key)
	if !ok {
		return otherwise
	}
	return a.toNumber(v)
}

func (a *args) toNumber(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		a.fail("%q is no number", word)
	}
	return n
}

// choice takes the next word, which must be one of choices.
func (a *args) choice(what string, choices ...string) string {
	w := a.next(what)
	if w != "" && !slices.Contains(choices, w) {
		a.fail("%q is none of %s", w, strings.Join(choices, ", "))
	}
	return w
}

// container takes the next word of the form POD/CONTAINER.
func (a *args) container() (pod, container string) {
	w := a.next("POD/CONTAINER")
	pod, container, ok := strings.Cut(w, "/")
	if w != "" && (!ok || pod == "" || container == "") {
		a.fail("%q is not POD/CONTAINER", w)
	}
	return pod, container
}
