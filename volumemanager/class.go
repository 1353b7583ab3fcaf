// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"slices"
)

// The classes of plugin errors, found with errors.Is through any wrapping. The kubelet tests the
// outermost error only, and treats an error without a class as final. Here an error without a class
// is uncertain. At worst TearDown is called for a volume that SetUp has not touched.
var (
	// ErrTransient: nothing was tried, and the volume is unchanged. The call is repeated after a
	// back-off.
	ErrTransient = errors.New("transient")
	// ErrFinal: the call failed, left nothing behind and is not working any more. No TearDown is
	// needed. The call is repeated after a back-off.
	ErrFinal = errors.New("final")
	// ErrTerminal is like ErrFinal, and the call would fail again until the pod or the volume
	// changes. Waiting calls return the error at once. The call is repeated only in the next sync
	// of the pod.
	ErrTerminal = errors.New("terminal")
	// ErrUncertain, the default class: the call may have left a part of the volume behind, or may
	// still be working. The call is repeated after a back-off. Once the pod is gone, TearDown is
	// called.
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

// classified is err with a class. The class does not appear in the text.
type classified struct{ class, err error }

func (c *classified) Error() string   { return c.err.Error() }
func (c *classified) Unwrap() []error { return []error{c.class, c.err} }

// classOf returns the class of err; the outermost class wins; nil for nil. Joined errors have the
// most careful of their classes, so that an error without a class makes the whole uncertain.
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

// mostCareful returns the class of errs that requires the most cleanup.
func mostCareful(errs []error) error {
	var classes []error
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
