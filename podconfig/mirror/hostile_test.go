// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// TestHostileServers: with a permanently faulty server, a Reconcile sends at most seven requests
// and never waits. Only six calls in 10 s send requests. The first call 10 s after the server's
// recovery succeeds.
func TestHostileServers(t *testing.T) {
	answers := map[string]error{"a plain error": errors.New("no")}
	for _, code := range casetest.Codes() {
		for _, retryAfter := range []int{0, 1_000_000} {
			answers[fmt.Sprintf("%d, retry after %d s", code, retryAfter)] =
				apierrors.NewGenericServerResponse(code, "create", v1.Resource("pods"), "web", "", retryAfter, true)
		}
	}
	answers["it exists, and does not"] = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 409, Reason: metav1.StatusReasonAlreadyExists}}
	for name, answer := range answers {
		for _, verb := range []string{"", "create", "get", "delete"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				_, err := f.reconcile()
				require.NoError(t, err)
				f.api.taken()
				f.static = static("web-n", "s2", "h2") // to replace the mirror pod
				f.api.fault = func(call string) error {
					if strings.HasPrefix(call, verb) {
						return answer
					}
					return nil
				}
				busy := 0
				for range 100 {
					_, err := f.reconcile()
					sent := len(f.api.taken())
					assert.LessOrEqual(t, sent, 7)
					if sent > 0 {
						busy++
						assert.NotErrorIs(t, err, mirror.ErrBudget, "%s to %s", name, verb)
					}
					time.Sleep(100 * time.Millisecond)
				}
				assert.LessOrEqual(t, busy, 6)
				f.api.fault = nil
				time.Sleep(10 * time.Second)
				_, err = f.reconcile()
				require.NoError(t, err)
				require.Equal(t, "h2", f.shown())
			})
		}
	}
}

// TestAWriterThatDeletesMirrors: a second writer deletes every mirror pod, or marks it as another
// pod's. Each change leads to a Reconcile. Six calls in an hour send requests at once, and further
// calls one in 10 s.
func TestAWriterThatDeletesMirrors(t *testing.T) {
	for name, meddle := range map[string]func(*fixture){
		"deletes": func(f *fixture) { f.api.pods = map[string]*v1.Pod{} },
		"edits": func(f *fixture) {
			for _, p := range f.api.pods {
				p.Annotations[podconfig.AnnotationMirror] = "other"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				sent := 0
				for range 36_000 {
					_, err := f.reconcile()
					if budget, ok := errors.AsType[*mirror.BudgetError](err); ok {
						assert.LessOrEqual(t, time.Until(budget.RetryAt), 10*time.Second)
						assert.Contains(t, err.Error(), "web")
					} else {
						require.NoError(t, err)
						sent++
					}
					meddle(f)
					time.Sleep(100 * time.Millisecond)
				}
				assert.LessOrEqual(t, sent, 5+360)
				assert.GreaterOrEqual(t, sent, 360)
			})
		})
	}
}

// TestEachChangeIsWorthACall: a user applies and removes a static pod, or edits it, more often than the budget of its
// name allows. The mirror pod follows each change at once, and a writer that deletes it is still bound by the budget.
func TestEachChangeIsWorthACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 30 {
			f.static = static("web-n", "s1", fmt.Sprintf("h%d", i/10))
			_, err := f.reconcile()
			require.NoError(t, err, i)
			require.Equal(t, fmt.Sprintf("h%d", i/10), f.shown())
			old := f.current()
			require.NoError(t, f.client.DeleteOrphans(t.Context(), func(yield func(*v1.Pod) bool) { yield(old) }, nil), i)
			require.Empty(t, f.shown())
		}
		f.static = static("web-n", "s1", "last")
		_, err := f.reconcile()
		require.NoError(t, err)
		f.api.pods = map[string]*v1.Pod{}
		_, err = f.reconcile()
		require.ErrorIs(t, err, mirror.ErrBudget)
	})
}

// An edit of a static pod whose source sets no hash is a change, too.
func TestEachChangeWithoutAHashIsWorthACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 30 {
			f.static = static("web-n", "s1", "")
			f.static.Spec.Containers[0].Image = fmt.Sprintf("x:%d", i)
			_, err := f.reconcile()
			require.NoError(t, err, i)
			require.Equal(t, f.static.Spec.Containers[0].Image, f.current().Spec.Containers[0].Image)
		}
	})
}
