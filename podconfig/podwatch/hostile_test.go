// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// hostile are servers that never answer correctly.
func hostile() map[string]func(string, http.ResponseWriter, *http.Request) bool {
	code := func(code, retryAfter int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if retryAfter != 0 {
				w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			}
			fail(w, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code)}})
		}
	}
	all := map[string]func(string, http.ResponseWriter, *http.Request) bool{
		"closes watches at once": func(verb string, w http.ResponseWriter, _ *http.Request) bool {
			if verb != "list" {
				w.WriteHeader(http.StatusOK)
			}
			return verb != "list"
		},
		"ends watches with 410": func(verb string, w http.ResponseWriter, _ *http.Request) bool {
			if verb != "list" {
				_, _ = w.Write([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}` + "\n"))
			}
			return verb != "list"
		},
		"answers no JSON": answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
		"answers nothing": answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }),
	}
	for _, c := range casetest.Codes() {
		all[fmt.Sprint(c)] = answer(code(c, 0))
		if c%100 < 4 || c == 429 {
			all[fmt.Sprintf("%d, retry after 11 days", c)] = answer(code(c, 1_000_000))
		}
	}
	return all
}

// TestHostileServers: with a permanently faulty server, the source makes at most 60 requests in the
// first five minutes and one in ten seconds in the end. It has the pods within a minute of the
// server's recovery.
func TestHostileServers(t *testing.T) {
	for name, fault := range hostile() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.set(pod("a"))
				f.break_(fault)
				r := f.run()
				r.pass(5 * time.Minute)
				first := len(f.asked())
				r.pass(30 * time.Minute)
				then := len(f.asked())
				assert.LessOrEqual(t, first, 60)
				assert.LessOrEqual(t, then, 180)
				f.break_(nil)
				f.set(pod("b"))
				r.pass(time.Minute)
				assert.Contains(t, fmt.Sprint(r.take()), "b")
				assert.NoError(t, r.stop())
			})
		})
	}
}

// TestRandomSpreadsRetries: the same random numbers give the same times.
func TestRandomSpreadsRetries(t *testing.T) {
	requests := func(random float64) (n int) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, func(c *podwatch.Config) { c.Random = func() float64 { return random } })
			f.break_(hostile()["500"])
			r := f.run()
			r.pass(time.Hour)
			n = len(f.asked())
			assert.NoError(t, r.stop())
		})
		return n
	}
	first := requests(0)
	assert.Equal(t, first, requests(0))
	assert.InDelta(t, first, 2*requests(0.999), 20, "twice the pauses, half the requests")
}
