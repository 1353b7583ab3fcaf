// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// Each test in this file shows the absence of a fault of kubelet 1.36.3 or of client-go's reflector
// in the kubelet, or that upstream's behaviour is kept.

// The kubelet pushes the complete list for every event.
func TestUpstreamEveryEventIsACompleteList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		for _, n := range names(100, "p%d") {
			f.set(pod(n))
		}
		r := f.run()
		r.take()
		for range 10 {
			f.set(withImage(pod("p7"), "x:2"))
		}
		synctest.Wait()
		got := r.take()
		require.Len(t, got, 10)
		for _, change := range got {
			require.Equal(t, "upsert p7=x:2", change)
		}
		require.NoError(t, r.stop())
	})
}

// The kubelet polls once per second whether the node is known, forever, and the poll cannot be
// stopped.
func TestUpstreamWaitForTheNodeCannotBeEnded(t *testing.T) { TestRunEndsWhileItWaitsForTheNode(t) }

// Kept: during a disconnection no change is submitted, and the known pods stay.
func TestUpstreamDisconnectionEmitsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		r := f.run()
		require.Equal(t, []string{"snapshot a"}, r.take())
		r.pass(10 * time.Second)
		f.kill()
		r.pass(time.Hour)
		require.Empty(t, r.take())
		require.Equal(t, []string{"watch Unreachable"}, f.told())
		f.start()
		f.set(pod("b"))
		r.settle()
		require.Equal(t, []string{"upsert b"}, r.take(), "the watch goes on where it ended")
		require.Equal(t, []string{"ok"}, f.told())
		require.NoError(t, r.stop())
	})
}

// Kept: a pod deleted and re-created within the gap is a new pod.
func TestUpstreamRecreatedInTheGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		r := f.run()
		f.kill()
		f.remove("a")
		again := pod("a")
		again.UID = "a2"
		f.set(again)
		f.compact()
		f.start()
		r.settle()
		require.Equal(t, []string{"snapshot a", "snapshot a"}, r.take())
		require.NoError(t, r.stop())
	})
}

// The reflector waits up to a minute, regardless of its context, after a server has rejected a
// watch-list.
func TestUpstreamReflectorSitsOutItsBackoff(t *testing.T) {
	for name, setUp := range map[string]func(f *fixture){
		"refused": func(f *fixture) { f.kill() },
		"busy":    func(f *fixture) { f.break_(answer(status(apierrors.NewTooManyRequestsError("busy")))) },
		"busy in the stream": func(f *fixture) {
			f.break_(answer(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}}`+"\n")
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				setUp(f)
				r := f.run()
				r.pass(3 * time.Minute)
				for _, request := range f.asked() {
					require.NotEqual(t, "list", strings.Fields(request)[0], "that would be refused like it")
				}
				before := time.Now()
				require.NoError(t, r.stop())
				require.Equal(t, before, time.Now())
			})
		})
	}
}

// The reflector retries without a pause if a watch-list ends before its bookmark, or if its
// resource version has expired.
func TestUpstreamReflectorAsksWithoutPause(t *testing.T) {
	for name, do := range map[string]http.HandlerFunc{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"a"},"spec":{"nodeName":"n"}}}`+"\n")
		},
		"expired": status(apierrors.NewResourceExpired("too old")),
		"expired in the stream": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`+"\n")
		},
		"too new": status(&apierrors.StatusError{ErrStatus: apierrors.NewTimeoutError("Too large resource version", 1).ErrStatus}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.break_(answer(do, "watch-list", "list", "watch"))
				r := f.run()
				r.pass(time.Minute)
				require.Less(t, len(f.asked()), 50)
				require.NoError(t, r.stop())

				f = newFixture(t)
				f.set(pod("a"))
				f.break_(answer(do, "watch-list"))
				r = f.run()
				r.settle()
				require.Equal(t, []string{"snapshot a"}, r.take(), "a list helps")
				require.Empty(t, f.told())
				require.NoError(t, r.stop())
			})
		})
	}
}

// The reflector reopens a watch without a pause if the server ends watches early again and again.
func TestUpstreamReflectorReopensWithoutPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.WithoutWatchList = true
		f.break_(answer(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"a","resourceVersion":"5"},"spec":{"nodeName":"n","containers":[{"image":"x:1"}]}}}`+"\n")
		}, "watch"))
		r := f.run()
		r.pass(time.Minute)
		require.LessOrEqual(t, len(f.asked()), 62)
		require.NoError(t, r.stop())
	})
}

// The reflector does not stop a watch-list whose pods its store rejected.
func TestUpstreamReflectorLeavesAWatchOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s, err := podwatch.New(f.config)
		require.NoError(t, err)
		require.Error(t, s.Run(t.Context(), &sink{err: errors.New("full")}))
		synctest.Wait()
		require.Zero(t, f.openStreams())
	})
}

// client-go logs all failures through klog, which writes to stderr: dozens of lines, some with a
// whole event.
func TestUpstreamReflectorWritesToStderr(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = write
	defer func() { os.Stderr = stderr }()
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		r := f.run()
		for _, do := range []http.HandlerFunc{
			status(apierrors.NewUnauthorized("who")),
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"type":"ADDED","object":{}}`+"\n")
			},
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"type":"NEWS","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"`+secret+`"}}}`+"\n")
			},
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		} {
			for _, mode := range []bool{false, true} {
				f.mu.Lock()
				f.noStream = mode
				f.mu.Unlock()
				f.break_(answer(do))
				f.cut()
				r.pass(3 * time.Minute)
			}
		}
		require.NoError(t, r.stop())
	})
	os.Stderr = stderr
	require.NoError(t, write.Close())
	text, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Empty(t, string(bytes.TrimSpace(text)))
}

// client-go decodes any JSON object as a list, and "{}" as an empty list. Behind a captive portal,
// all pods would end.
func TestUpstreamAnyObjectIsAnEmptyList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.WithoutWatchList = true
		f.set(pod("a"))
		r := f.run()
		f.break_(answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
		f.cut()
		r.pass(10 * time.Minute)
		require.Equal(t, []string{"snapshot a"}, r.take())
		require.Contains(t, f.told(), "list BadAnswer")
		require.NoError(t, r.stop())
	})
}
