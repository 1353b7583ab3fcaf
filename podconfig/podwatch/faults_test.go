// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

var pods = schema.GroupResource{Resource: "pods"}

// answer is a fault that answers every request of the verbs, or of all verbs if none is given, with
// do.
func answer(do http.HandlerFunc, verbs ...string) func(string, http.ResponseWriter, *http.Request) bool {
	return func(verb string, w http.ResponseWriter, r *http.Request) bool {
		for _, v := range verbs {
			if v == verb {
				do(w, r)
				return true
			}
		}
		if len(verbs) == 0 {
			do(w, r)
		}
		return len(verbs) == 0
	}
}

func status(e *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fail(w, e) }
}

// TestRunTellsEachProblemOnce expects each kind of problem to be reported once, and its end. Known
// pods stay.
func TestRunTellsEachProblemOnce(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   metav1.StatusReason
	}{
		{"401", status(apierrors.NewUnauthorized("who are you")), clientkit.Unauthorized},
		{"403", status(apierrors.NewForbidden(pods, "", errors.New("no"))), clientkit.Forbidden},
		{"404", status(apierrors.NewNotFound(pods, "")), clientkit.NotFound},
		{"410", status(apierrors.NewResourceExpired("too old")), clientkit.Expired},
		{"429", status(apierrors.NewTooManyRequestsError("busy")), clientkit.TooManyRequests},
		{"500", status(apierrors.NewInternalError(errors.New("etcd"))), clientkit.Server},
		{"404 of another server", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			http.Error(w, secret, http.StatusNotFound)
		}, clientkit.NotFound},
		{"502 of a proxy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			http.Error(w, secret, http.StatusBadGateway)
		}, clientkit.Server},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"a":"`+secret+`"}`) }, clientkit.BadAnswer},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, secret) }, clientkit.BadAnswer},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, clientkit.Timeout},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"kind":"PodList"`)
		}, clientkit.Unreachable},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, clientkit.Unreachable},
	}
	for _, tc := range tests {
		for name, mode := range modes {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFixture(t)
					mode(f)
					f.set(pod("a"))
					r := f.run()
					f.break_(answer(tc.answer))
					f.compact()
					f.cut()
					r.pass(10 * time.Minute)
					told := f.told()
					require.Contains(t, told, "list "+string(tc.want))
					require.LessOrEqual(t, len(told), 2+1, "at most once for each verb, and an expiry: %v", told)
					require.NotContains(t, told, "ok")
					require.Equal(t, []string{"snapshot a"}, r.take())
					require.Less(t, len(f.asked()), 300, "in ten minutes, each try being a watch-list and a list, which client-go repeats after a second")

					f.break_(nil)
					f.set(pod("b"))
					r.pass(3 * time.Minute)
					require.Equal(t, []string{"snapshot a b"}, r.take())
					told = f.told()
					require.Equal(t, "ok", told[len(told)-1])
					require.NoError(t, r.stop())
				})
			})
		}
	}
}

// A watch may be forbidden or broken while a list works.
func TestRunTellsOfWatchesApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		f.break_(answer(status(apierrors.NewForbidden(pods, "", errors.New("no"))), "watch", "watch-list"))
		r := f.run()
		r.pass(10 * time.Minute)
		require.Equal(t, []string{"watch Forbidden"}, f.told(), "once, though a list works every time")
		require.Greater(t, len(r.take()), 10, "lists do what they can")
		f.break_(nil)
		r.settle()
		require.Equal(t, []string{"ok"}, f.told())
		require.NoError(t, r.stop())
	})
}

// TestRunSurvivesBrokenStreams sends broken events within a watch and expects no lost change.
func TestRunSurvivesBrokenStreams(t *testing.T) {
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			if !strings.HasSuffix(text, "\n") {
				panic(http.ErrAbortHandler)
			}
			<-r.Context().Done()
		}
	}
	half, err := json.Marshal(event{Type: "ADDED", Object: typed(withImage(pod("b"), "x:wrong"))})
	require.NoError(t, err)
	tests := []struct {
		name string
		fail http.HandlerFunc
		want []string
	}{
		{"cut in the middle of an event", stream(string(half[:len(half)/2])), nil},
		{"cut at once", stream(""), []string{"watch Unreachable"}},
		{"garbage", stream(`{"type":"ADDED","object":{"spec":"` + secret + `"}}` + "\n"), []string{"watch BadAnswer"}},
		{"no JSON", stream(secret + "\n"), []string{"watch BadAnswer"}},
		{"another kind", stream(`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + secret + `"}}}` + "\n"), []string{"watch BadAnswer"}},
		{"an unknown type", stream(`{"type":"NEWS","object":{"kind":"Pod","apiVersion":"v1"}}` + "\n"), []string{"watch BadAnswer"}},
		{"410", stream(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"), []string{"watch Expired"}},
		{"429", stream(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}}` + "\n"), []string{"watch TooManyRequests"}},
		{"500", stream(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}}` + "\n"), []string{"watch Server"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.config.WithoutWatchList = true
				f.set(pod("a"))
				f.break_(answer(tc.fail, "watch"))
				r := f.run()
				r.pass(time.Minute)
				for _, problem := range tc.want {
					require.Contains(t, f.told(), problem)
				}
				f.set(withImage(pod("a"), "x:2"))
				f.set(pod("b"))
				f.break_(nil)
				f.cut()
				r.settle()
				got := r.take()
				require.Equal(t, "snapshot a", got[0])
				require.NotContains(t, strings.Join(got, " "), "wrong")
				last := strings.Join(got[1:], " ")
				require.Contains(t, last, "a=x:2")
				require.Contains(t, last, "b")
				f.set(pod("c"))
				synctest.Wait()
				require.Equal(t, []string{"upsert c"}, r.take())
				require.NoError(t, r.stop())
			})
		})
	}
}

// With a server or proxy that ignores the field selector, this node would run all pods of the
// cluster.
func TestRunLeavesOutPodsOfOtherNodes(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				mode(f)
				f.set(pod("a"))
				f.set(onNode(pod("foreign"), "m"))
				f.break_(func(_ string, _ http.ResponseWriter, r *http.Request) bool {
					q := r.URL.Query()
					q.Del("fieldSelector")
					r.URL.RawQuery = q.Encode()
					return false
				})
				r := f.run()
				f.set(onNode(pod("foreign2"), ""))
				f.set(pod("b"))
				f.remove("foreign")
				synctest.Wait()
				require.Equal(t, []string{"snapshot a", "upsert b"}, r.take())
				require.Contains(t, strings.Join(f.told(), " "), "BadAnswer")
				require.NoError(t, r.stop())
			})
		})
	}
}

// A server that hangs in a watch, without ending the connection, is abandoned after the requested
// duration plus Timeout.
func TestRunLeavesAServerThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		r := f.run()
		f.break_(answer(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "watch"))
		r.pass(10 * time.Second)
		f.cut() // then follows a watch that hangs
		r.pass(10 * time.Second)
		f.break_(nil)
		f.set(pod("b"))
		r.pass(11 * time.Minute)
		require.Equal(t, []string{"snapshot a", "upsert b"}, r.take())
		require.NoError(t, r.stop())
	})
}

// A server that never answers a watch is abandoned sooner, but not before a proxy that waits for
// the first event has passed on a bookmark.
func TestRunLeavesAServerThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.WithoutWatchList = true
		f.break_(answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "watch"))
		r := f.run()
		f.break_(nil)
		f.set(pod("a"))
		r.pass(2*time.Minute - time.Second)
		require.Equal(t, []string{"snapshot"}, r.take())
		r.pass(5 * time.Second)
		require.Equal(t, []string{"snapshot a"}, r.take())
		require.Equal(t, []string{"watch Timeout"}, f.told())
		require.NoError(t, r.stop())
	})
}

// A watch-list does not count as successful before the end of its initial events.
func TestRunIsNotWellInTheInitialEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		forbidden := answer(status(apierrors.NewForbidden(pods, "", errors.New("no"))), "watch")
		f.break_(func(verb string, w http.ResponseWriter, r *http.Request) bool {
			if verb == "watch-list" {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			}
			return forbidden(verb, w, r)
		})
		r := f.run()
		r.pass(10 * time.Minute)
		require.Equal(t, []string{"watch Forbidden"}, f.told())
		f.break_(nil)
		r.pass(3 * time.Minute)
		require.Equal(t, []string{"ok"}, f.told())
		require.NoError(t, r.stop())
	})
}

// An expired version causes a new watch-list each time, and never a list.
func TestRunStreamsAgainAfterEachExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		r := f.run()
		for range 3 {
			r.pass(10 * time.Second)
			f.kill()
			f.set(pod("a"))
			f.compact()
			f.start()
			r.pass(time.Minute)
		}
		require.Equal(t, []string{"snapshot", "snapshot a", "snapshot a", "snapshot a"}, r.take())
		for _, request := range f.asked() {
			require.NotEqual(t, "list", strings.Fields(request)[0])
		}
		require.NoError(t, r.stop())
	})
}

// A slow server is no problem within the timeout.
func TestRunHasPatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		f.break_(func(_ string, _ http.ResponseWriter, _ *http.Request) bool {
			time.Sleep(50 * time.Second)
			return false
		})
		r := f.run()
		r.pass(time.Minute)
		require.Equal(t, []string{"snapshot a"}, r.take())
		require.Empty(t, f.told())
		require.NoError(t, r.stop())
	})
}

// Status errors give access to the functions of apimachinery.
func TestErrorsAreTyped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.break_(answer(status(apierrors.NewForbidden(pods, "", errors.New("no role")))))
		r := f.run()
		require.NoError(t, r.stop())
		require.Len(t, f.errs, 1)
		require.True(t, apierrors.IsForbidden(f.errs[0]))
		require.EqualError(t, f.errs[0], "list pods: Forbidden: pods is forbidden: no role")
		require.Equal(t, metav1.StatusReasonForbidden, apierrors.ReasonForError(f.errs[0]))
	})
}
