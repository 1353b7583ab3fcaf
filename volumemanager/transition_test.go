// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// TestTransitions tests the table of volume.settle, for volumes of pods and for devices.
func TestTransitions(t *testing.T) {
	plain := errors.New("x")
	failures := map[string]error{
		"ok": nil, "plain": plain, "uncertain": Uncertain(plain), "transient": Transient(plain),
		"final": Final(plain), "terminal": Terminal(plain),
	}
	const no, maybe, yes = StateNotMounted, StateUncertain, StateMounted
	tests := []struct {
		kind  OperationKind
		was   State
		found bool
		err   string
		want  State
	}{
		{OpMount, no, false, "ok", yes}, {OpMount, maybe, false, "ok", yes}, {OpMount, maybe, true, "ok", yes},
		{OpMount, no, false, "plain", maybe}, {OpMount, no, false, "uncertain", maybe},
		{OpMount, no, false, "transient", no}, {OpMount, no, false, "final", no}, {OpMount, no, false, "terminal", no},
		{OpMount, maybe, false, "plain", maybe}, {OpMount, maybe, false, "transient", maybe},
		{OpMount, maybe, false, "final", no}, {OpMount, maybe, false, "terminal", no},
		{OpMount, maybe, true, "final", maybe}, {OpMount, maybe, true, "terminal", maybe}, {OpMount, maybe, true, "plain", maybe},
		{OpRefresh, yes, false, "ok", yes}, {OpRefresh, yes, false, "plain", yes}, {OpRefresh, yes, false, "uncertain", yes},
		{OpRefresh, yes, false, "final", yes}, {OpRefresh, yes, false, "terminal", yes}, {OpRefresh, yes, false, "transient", yes},
		{OpUnmount, yes, false, "ok", no}, {OpUnmount, maybe, true, "ok", no},
		{OpUnmount, yes, false, "plain", maybe}, {OpUnmount, yes, false, "final", maybe}, {OpUnmount, yes, false, "transient", maybe},
		{OpUnmount, yes, false, "terminal", maybe}, {OpUnmount, maybe, true, "plain", maybe},
	}
	devices := map[OperationKind]OperationKind{OpMount: OpMountDevice, OpUnmount: OpUnmountDevice}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s of %s, found %t: %s", tc.kind, tc.was, tc.found, tc.err), func(t *testing.T) {
			out := outcome{err: failures[tc.err]}
			v := volumeWith(map[types.UID]*row{"a": {state: tc.was, found: tc.found, desire: DesireGone}})
			o := &operation{step: step{kind: tc.kind, uid: "a"}}
			v.row("a").busy = o
			v.settle(o, out, now)
			r := v.row("a")
			assert.Equal(t, tc.want, r.state)
			assert.Nil(t, r.busy)
			assert.Equal(t, out.err, r.failure.err)
			assert.Equal(t, tc.found && out.err != nil, r.found)
			kind, ok := devices[tc.kind]
			if !ok {
				return
			}
			v = volumeWith(map[types.UID]*row{}, func(v *volume) { v.device, v.found = tc.was, tc.found })
			o = &operation{step: step{kind: kind, alone: true}}
			v.busy = o
			v.settle(o, out, now)
			assert.Equal(t, tc.want, v.device, "the device")
			assert.Equal(t, tc.found && out.err != nil, v.found)
			assert.Nil(t, v.busy)
		})
	}
}

// TestTransitionsOfAnUnexpectedRecord: a record without a known volume tells that containers may use the volume.
func TestTransitionsOfAnUnexpectedRecord(t *testing.T) {
	for _, err := range []error{Final(errors.New("x")), Terminal(errors.New("x")), Transient(errors.New("x")), errors.New("x"), nil} {
		r := &row{}
		r.settleSetUp(&operation{}, outcome{err: err, found: true})
		want := row{state: StateUncertain, found: true}
		if err == nil {
			want = row{state: StateMounted}
		}
		assert.Equal(t, want, *r, "%v", err)
	}
}

// TestTransitionsOfALivePod: nothing was torn down, because the pod is not gone after all.
func TestTransitionsOfALivePod(t *testing.T) {
	for desire, want := range map[Desire]Desire{DesireGone: DesireKept, DesireKept: DesireKept, DesireMounted: DesireMounted} {
		v := volumeWith(map[types.UID]*row{"a": {state: StateMounted, desire: desire, busy: &operation{}}})
		v.settle(&operation{step: step{kind: OpUnmount, uid: "a"}}, outcome{alive: true}, now)
		assert.Equal(t, row{place: Place{PodUID: "a"}, state: StateMounted, desire: want}, *v.row("a"))
	}
}

func TestFailures(t *testing.T) {
	var f failure
	for _, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122000, 122000} {
		f = f.next(OpMount, errors.New("no"), now)
		require.Equal(t, now.Add(want*time.Millisecond), f.until)
	}
	assert.Equal(t, 1, f.next(OpUnmount, errors.New("no"), now).count, "another kind begins anew")
	assert.Zero(t, f.next(OpMount, nil, now))
	assert.True(t, f.next(OpMount, Terminal(errors.New("no")), now).terminal)
	assert.False(t, f.next(OpUnmount, Terminal(errors.New("no")), now).terminal, "what is to be undone is tried again")
	assert.False(t, f.next(OpUnmountDevice, Terminal(errors.New("no")), now).terminal)
	assert.Equal(t, 10, f.endBackoff().count)
	assert.Zero(t, f.endBackoff().until)
}

// noErrors is a joined error without an error.
type noErrors struct{}

func (noErrors) Error() string   { return "nothing" }
func (noErrors) Unwrap() []error { return nil }

func TestClasses(t *testing.T) {
	x := errors.New("x")
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"nil", nil, nil},
		{"plain", x, ErrUncertain},
		{"each", Transient(x), ErrTransient},
		{"wrapped", fmt.Errorf("a: %w", Final(x)), ErrFinal},
		{"the outermost counts", Uncertain(fmt.Errorf("a: %w", Terminal(x))), ErrUncertain},
		{"the sentinel itself", fmt.Errorf("a: %w", ErrTerminal), ErrTerminal},
		{"joined", errors.Join(Final(x), Terminal(x)), ErrFinal},
		{"joined with transient", errors.Join(Terminal(x), Transient(x)), ErrTransient},
		{"joined with plain", errors.Join(Final(x), x), ErrUncertain},
		{"wrapped twice in one", fmt.Errorf("%w: %w", x, Final(x)), ErrUncertain},
		{"a wrapper of nothing", &fs.PathError{Op: "open", Path: "/x"}, ErrUncertain},
		{"joined nothing", noErrors{}, ErrUncertain},
		{"joined and classified", Final(errors.Join(x, x)), ErrFinal},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, classOf(tc.err))
			if tc.err != nil && tc.want != ErrUncertain {
				require.ErrorIs(t, tc.err, tc.want)
			}
		})
	}
	assert.Equal(t, "x", Final(x).Error(), "a class does not change the text")
	require.ErrorIs(t, Final(x), x)
	for _, f := range []func(error) error{Transient, Final, Terminal, Uncertain} {
		require.NoError(t, f(nil))
	}
}
