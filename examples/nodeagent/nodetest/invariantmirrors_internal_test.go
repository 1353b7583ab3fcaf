// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

func TestMirrorPodsAreCreatedAgainForACauseOnly(t *testing.T) {
	const s = time.Second
	file := func(at time.Duration, hash string) Told {
		return Told{at, podconfig.SourceFile, []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Annotations: map[string]string{podconfig.AnnotationHash: hash}}}}}
	}
	made := func(at time.Duration) MirrorEvent { return MirrorEvent{at, "p", MirrorCreated} }
	told := []Told{file(0, "a")}
	for name, tc := range map[string]struct {
		h     History
		found int
	}{
		"once":              {History{Told: told, Mirrors: []MirrorEvent{made(0)}}, 0},
		"again":             {History{Told: told, Mirrors: []MirrorEvent{made(s), made(60 * s)}}, 1},
		"at each status":    {History{Told: told, Mirrors: []MirrorEvent{made(s), made(60 * s), made(90 * s)}}, 2},
		"for a change":      {History{Told: append(told, file(50*s, "b")), Mirrors: []MirrorEvent{made(s), made(60 * s)}}, 0},
		"for the same pod":  {History{Told: append(told, file(50*s, "a")), Mirrors: []MirrorEvent{made(s), made(60 * s)}}, 1},
		"after its removal": {History{Told: append(told, Told{50 * s, podconfig.SourceFile, nil}, file(55*s, "a")), Mirrors: []MirrorEvent{made(s), made(60 * s)}}, 0},
		"by a user":         {History{Told: told, Mirrors: []MirrorEvent{made(s), {50 * s, "p", MirrorDeleted}, made(60 * s)}}, 0},
		"of another pod":    {History{Told: told, Mirrors: []MirrorEvent{made(s), {50 * s, "q", MirrorDeleted}, made(60 * s)}}, 1},
		"by another agent":  {History{Told: told, Mirrors: []MirrorEvent{made(s), made(60 * s)}, Marks: []Mark{{At: 50 * s, Kind: MarkAgentStarted}}}, 0},
	} {
		c := newChecker(tc.h)
		c.mirrorsSince(0)
		assert.Len(t, c.found, tc.found, name)
	}
	slow := newChecker(History{Told: append(told, file(50*s, "b")), Mirrors: []MirrorEvent{made(s), made(51 * s), made(60 * s)}})
	slow.mirrors()
	assert.Empty(t, slow.found, "a request was in flight at the change")
}
