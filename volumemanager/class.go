// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"slices"
)

// What the error of a plugin says of the volume. They are matched with errors.Is
// through any wrapping; the kubelet tests the outermost error only, and takes one
// without a class for final. Here one without a class is uncertain, which costs
// at most a TearDown of nothing.
var (
	// ErrTransient: nothing was tried, the volume is as it was. The call is
	// repeated after a back-off.
	ErrTransient = errors.New("transient")
	// ErrFinal: the call failed, nothing of it is left and nothing is under way;
	// no TearDown is needed. The call is repeated after a back-off.
	ErrFinal = errors.New("final")
	// ErrTerminal: as ErrFinal, and the call would fail in the same way until the
	// pod or the volume changes. Those who wait are told at once; the call is
	// repeated only when the pod is synced again.
	ErrTerminal = errors.New("terminal")
	// ErrUncertain: something of the call may be left or still under way. The
	// call is repeated after a back-off, and once the pod is gone there is a
	// TearDown. The default.
	ErrUncertain = errors.New("uncertain")
)

// Transient returns err, classified as ErrTransient; nil for nil.
func Transient(err error) error { return classify(ErrTransient, err) }

// Final returns err, classified as ErrFinal; nil for nil.
func Final(err error) error { return classify(ErrFinal, err) }

// Terminal returns err, classified as ErrTerminal; nil for nil.
func Terminal(err error) error { return classify(ErrTerminal, err) }

// Uncertain returns err, classified as ErrUncertain; nil for nil.
func Uncertain(err error) error { return classify(ErrUncertain, err) }

func classify(class, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class: class, err: err}
}

// classified is err with a class that its text does not show.
type classified struct{ class, err error }

func (c *classified) Error() string   { return c.err.Error() }
func (c *classified) Unwrap() []error { return []error{c.class, c.err} }

// classOf returns the class of err, the outermost if it was classified more than
// once; nil for nil. Of errors that are joined the most careful class counts, so
// that one without a class among them makes the whole uncertain.
func classOf(err error) error {
	switch err {
	case nil:
		return nil
	case ErrTransient, ErrFinal, ErrTerminal, ErrUncertain:
		return err
	}
	switch e := err.(type) {
	case *classified:
		return e.class
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return classOf(inner)
		}
	case interface{ Unwrap() []error }:
		return mostCareful(e.Unwrap())
	}
	return ErrUncertain
}

// mostCareful returns the class of errs that leaves the most to be undone.
func mostCareful(errs []error) error {
	classes := make([]error, 0, len(errs))
	for _, err := range errs {
		classes = append(classes, classOf(err))
	}
	for _, class := range []error{ErrUncertain, ErrTransient, ErrFinal, ErrTerminal} {
		if slices.Contains(classes, class) {
			return class
		}
	}
	return ErrUncertain
}
