// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Each case is a history without a violation, and a change that has one.
func TestRetriesAreJudged(t *testing.T) {
	// retried returns a change that adds requests for pod p without news, a second apart, before the end. Each fails.
	retried := func(kind statusmanager.Request, n int, err error) func(h *History) {
		return func(h *History) {
			for i := range n {
				last := *lastPatch(h)
				last.At, last.Took, last.Request, last.Err, last.Changed = h.Taken-time.Duration(n-i)*time.Second, 0, kind, err, false
				h.Requests = append(h.Requests, last)
			}
		}
	}
	// late returns a change that delays the agent's versions on the server.
	late := func(d time.Duration) func(h *History) {
		return func(h *History) {
			for i, s := range h.Stored {
				if s.At > time.Second && !slices.Contains(h.Changed, versionOf(s.Pod)) {
					h.Stored[i].At += d
				}
			}
			for i, r := range h.Requests {
				if r.At > time.Second {
					h.Requests[i].At += d
				}
			}
		}
	}
	lived := []string{"bind p\nsleep 30s\nexit p/c 1\nsleep 3m", "bind p\nsleep 30s\ntamper p phase\nsleep 3m"}
	for _, c := range []struct {
		name   string
		change func(h *History)
		want   string
	}{
		{"many requests", retried(statusmanager.RequestPatch, 20, apierrors.NewConflict(v1.Resource("pods"), "p", nil)), "is request"},
		{"after a delay of the server", retried(statusmanager.RequestPatch, 2, apierrors.NewTooManyRequests("later", 2)), "and there are no news since"},
		{"after a long delay of the server", retried(statusmanager.RequestPatch, 2, apierrors.NewTooManyRequests("later", 3600)), "and there are no news since"},
		{"after a refusal", retried(statusmanager.RequestPatch, 2, apierrors.NewForbidden(v1.Resource("pods"), "p", nil)), "and there are no news since"},
		{"read", retried(statusmanager.RequestGet, 1, nil), "there was no conflict"},
		{"gone", func(h *History) {
			retried(statusmanager.RequestPatch, 1, apierrors.NewNotFound(v1.Resource("pods"), "p"))(h)
			retried(statusmanager.RequestDelete, 1, nil)(h)
			h.Requests[len(h.Requests)-2].At -= time.Minute
		}, "which the server has not had since"},
		{"late", late(20 * time.Second), "has not got the status of p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, script := range lived {
				h := livedOn(t, "", script)
				require.NoError(t, Check(h))
				h.Stored, h.Requests = slices.Clone(h.Stored), slices.Clone(h.Requests)
				c.change(&h)
				require.ErrorContains(t, Check(h), c.want)
			}
		})
	}
}

// TestRetriesInTime: the same requests are right with the waits that answers ask for.
func TestRetriesInTime(t *testing.T) {
	h := lived(t, "bind p\nsleep 5s\nexit p/c 1\nsleep 10m")
	for i, err := range []error{apierrors.NewTooManyRequests("later", 3600), apierrors.NewTooManyRequests("later", 2), apierrors.NewForbidden(v1.Resource("pods"), "p", nil), statustest.ErrReplyLost} {
		last := *lastPatch(&h)
		last.At, last.Took, last.Err, last.Changed = 2*time.Minute+time.Duration(i)*time.Minute, 0, err, false
		h.Requests = append(slices.Clone(h.Requests), last)
	}
	require.NoError(t, Check(h))
}
