// SPDX-License-Identifier: Apache-2.0

package probertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

func target(pod, container string, kind prober.Type) prober.Target {
	return prober.Target{
		Pod:       &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod}},
		Container: &v1.Container{Name: container}, Type: kind,
	}
}

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &probertest.Handler{}
		ask := func(pod string, kind prober.Type) (prober.Outcome, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return h.Probe(ctx, target(pod, "c", kind))
		}
		out, err := ask("a", prober.Liveness)
		require.NoError(t, err)
		assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess}, out, "all is well")

		h.Set("", "c", prober.Liveness|prober.Startup, probertest.Fail())
		h.Set("ns/b", "c", prober.Liveness, probertest.Warn())
		out, _ = ask("a", prober.Liveness)
		assert.Equal(t, prober.VerdictFailure, out.Verdict)
		out, _ = ask("a", prober.Readiness)
		assert.Equal(t, prober.VerdictSuccess, out.Verdict, "another kind")
		out, _ = ask("b", prober.Liveness)
		assert.Equal(t, prober.VerdictWarning, out.Verdict, "this pod was told otherwise")

		h.Set("", "c", prober.All, probertest.Behaviour{Takes: 400 * time.Millisecond, Output: "slow"})
		began := time.Now()
		out, err = ask("a", prober.Startup)
		require.NoError(t, err)
		assert.Equal(t, "slow", out.Output)
		assert.Equal(t, 400*time.Millisecond, time.Since(began))

		h.Set("", "c", prober.All, probertest.Break("cannot"))
		_, err = ask("a", prober.Startup)
		assert.EqualError(t, err, "cannot")

		h.Set("", "c", prober.All, probertest.Hang())
		_, err = ask("a", prober.Startup)
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		calls := h.Calls()
		require.Len(t, calls, 7)
		last := calls[6]
		assert.Equal(t, time.Second, last.Ended.Sub(last.Started))
		assert.ErrorIs(t, last.Interrupted, context.DeadlineExceeded)
		assert.NoError(t, calls[5].Interrupted)
		assert.Equal(t, "b", calls[3].Target.Pod.Name)
	})
}
