// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

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
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// TestHostileServers: whatever answer the server repeats for ever, an object costs at most 60
// requests in the first five minutes and a request every ten seconds later. The object is known
// within a minute and a half of the server's recovery.
func TestHostileServers(t *testing.T) {
	type fault = func(string, objects.Ref, http.ResponseWriter, *http.Request) bool
	code := func(code, retryAfter int) fault {
		return func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			if retryAfter != 0 {
				w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			}
			fail(w, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code)}})
			return true
		}
	}
	onWatches := func(body string) fault {
		return func(verb string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			if verb == "watch" {
				_, _ = w.Write([]byte(body))
			}
			return verb == "watch"
		}
	}
	faults := map[string]fault{
		"closes watches at once": onWatches(""),
		"ends watches with 410":  onWatches(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}` + "\n"),
		"answers nothing": func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("{}"))
			return true
		},
	}
	for _, c := range casetest.Codes() {
		faults[fmt.Sprint(c)] = code(c, 0)
		if c%100 < 4 || c == 429 {
			faults[fmt.Sprintf("%d, retry after 11 days", c)] = code(c, 1_000_000)
		}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.set(configMap("a", "1"))
				f.break_(fault)
				f.Register(pod("p", "a"))
				f.pass(5 * time.Minute)
				assert.LessOrEqual(t, len(f.took()), 60)
				f.pass(30 * time.Minute)
				assert.LessOrEqual(t, len(f.took()), 180)
				f.break_(nil)
				f.set(configMap("a", "2"))
				f.pass(90 * time.Second)
				assert.Contains(t, f.look(cmRef("a")), "2")
			})
		})
	}
}

// TestRandomSpreadsRetries: the same random numbers give the same times.
func TestRandomSpreadsRetries(t *testing.T) {
	requests := func(random float64) (n int) {
		bubble(t, func(f *fixture) {
			f.break_(forbid)
			f.Register(pod("p", "a"))
			f.pass(time.Hour)
			n = len(f.took())
		}, func(o *volumeapi.ObjectsOptions) { o.Random = func() float64 { return random } })
		return n
	}
	first := requests(0)
	assert.Equal(t, first, requests(0))
	assert.InDelta(t, first, 2*requests(0.999), 20, "twice the pauses, half the requests")
}
