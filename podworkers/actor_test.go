// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// role is the behaviour of an actor during one method call for one pod.
type role struct {
	takes   time.Duration // negative: until the context ends
	deaf    bool          // does not listen to its context
	outcome string        // ok, terminal, error, transient, again:DURATION, or a duration for RetryAfter
}

// actor is the syncer of the scripts. It plays the configured roles and records all calls, with the time since the
// start of the script.
type actor struct {
	began time.Time

	mu      sync.Mutex
	roles   map[string]role
	journal []line
}

// line is one line of the journal. Lines of different subjects at the same instant may come in any order, so the
// journal shows them by subject: first results of the script itself, then calls by pod, then results of waiting
// goroutines.
type line struct {
	at      time.Duration
	subject string
	text    string
}

const (
	theScript = ""
	waiters   = "~" // sorts after every UID
)

func newActor() *actor {
	return &actor{began: time.Now(), roles: map[string]role{}}
}

// note writes one line into the journal.
func (a *actor) note(subject, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.journal = append(a.journal, line{time.Since(a.began), subject, fmt.Sprintf(format, args...)})
}

// flush returns the journal written since the last flush.
func (a *actor) flush() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortStableFunc(a.journal, func(x, y line) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.subject, y.subject))
	})
	var lines []string
	for _, l := range a.journal {
		lines = append(lines, fmt.Sprintf("%4ds  %s", int(l.at.Seconds()), l.text))
	}
	a.journal = nil
	return lines
}

func (a *actor) cast(uid types.UID, method string, r role) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roles[string(uid)+" "+method] = r
}

func (a *actor) SyncPod(ctx context.Context, r SyncRequest) (Outcome, error) {
	return a.play(ctx, r.Pod.UID, callSyncPod, describe(r))
}

func (a *actor) SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error {
	told := append(describe(r.SyncRequest), fmt.Sprintf("grace=%d", r.GracePeriodSeconds))
	if r.Evicted {
		told = append(told, "evicted")
	}
	var status v1.PodStatus
	r.ApplyStatus(&status)
	if status.Message != "" {
		told = append(told, "status="+status.Message)
	}
	_, err := a.play(ctx, r.Pod.UID, callTerminatingPod, told)
	return err
}

func (a *actor) SyncTerminatedPod(ctx context.Context, r SyncRequest) error {
	_, err := a.play(ctx, r.Pod.UID, callTerminatedPod, describe(r))
	return err
}

func (a *actor) SyncTerminatingOrphan(ctx context.Context, o Orphan, grace int64) error {
	_, err := a.play(ctx, o.UID, callTerminatingOrphan, []string{fmt.Sprintf("grace=%d", grace)})
	return err
}

// describe returns the parts of a request worth a word.
func describe(r SyncRequest) []string {
	told := []string{r.Type.String(), "v" + r.Pod.ResourceVersion}
	if r.MirrorPod != nil {
		told = append(told, "mirror="+r.MirrorPod.ResourceVersion)
	}
	if r.Attempt > 0 {
		told = append(told, fmt.Sprintf("attempt=%d", r.Attempt))
	}
	return told
}

// play plays the role of one call.
func (a *actor) play(ctx context.Context, uid types.UID, kind callKind, told []string) (Outcome, error) {
	a.mu.Lock()
	r, cast := a.roles[string(uid)+" "+kind.String()]
	a.mu.Unlock()
	if !cast {
		r = role{outcome: "ok"}
	}
	call := fmt.Sprintf("%s %s", kind, uid)
	a.note(string(uid), "%s %s", call, strings.Join(told, " "))
	if err := r.pass(ctx); err != nil {
		a.note(string(uid), "%s interrupted: %v", call, err)
		return Outcome{}, err
	}
	if r.takes != 0 || r.outcome != "ok" {
		a.note(string(uid), "%s returns %s", call, r.outcome)
	}
	return r.returns()
}

// pass waits for the duration of the role and returns the cause of an earlier end of ctx.
func (r role) pass(ctx context.Context) error {
	if r.deaf {
		time.Sleep(r.takes)
		return nil
	}
	if r.takes == 0 {
		return nil
	}
	var over <-chan time.Time
	if r.takes > 0 {
		over = time.After(r.takes)
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// returns converts the role's outcome to the results of SyncPod.
func (r role) returns() (Outcome, error) {
	switch r.outcome {
	case "ok":
		return Outcome{}, nil
	case "terminal":
		return Outcome{Over: true}, nil
	case "error":
		return Outcome{}, errors.New("no luck")
	case "transient":
		return Outcome{}, fmt.Errorf("network is not ready: %w", ErrTransient)
	}
	text, again := strings.CutPrefix(r.outcome, "again:")
	after, err := time.ParseDuration(text)
	if err != nil {
		panic("unknown outcome " + r.outcome)
	}
	if at := time.Now().Add(after); again {
		return Outcome{Again: at}, nil
	}
	return Outcome{}, RetryAfter(errors.New("back-off"), time.Now().Add(after))
}

func (a *actor) Forgotten(uid types.UID) { a.note(string(uid), "Forgotten %s", uid) }
