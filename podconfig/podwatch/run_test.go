// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// modes are the two forms of a list.
var modes = map[string]func(*fixture){
	"watch-list":             func(*fixture) {},
	"server without streams": func(f *fixture) { f.noStream = true },
	"client without streams": func(f *fixture) { f.config.WithoutWatchList = true },
}

func TestRunTellsSnapshotAndDeltas(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				mode(f)
				f.set(pod("a"))
				f.set(pod("b"))
				f.set(onNode(pod("elsewhere"), "m"))
				r := f.run()
				require.Equal(t, []string{"snapshot a b"}, r.take())
				f.set(pod("c"))
				f.set(onNode(pod("d"), "m"))
				f.set(withImage(pod("a"), "x:2"))
				f.bookmark()
				f.remove("b")
				synctest.Wait()
				require.Equal(t, []string{"upsert c", "upsert a=x:2", "remove b"}, r.take())
				require.NoError(t, r.stop())
				require.Empty(t, f.told())
				for _, s := range f.selectors {
					require.Equal(t, "spec.nodeName=n", s)
				}
				require.Equal(t, name != "server without streams" && name != "client without streams", f.asked()[0] == "watch-list" && len(f.selectors) == 1)
			})
		})
	}
}

func TestOneWatchOfManyNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.NodeName, f.config.Nodes = "", func(name types.NodeName) bool { return name == "n" || name == "other" }
		f.set(pod("a"))
		f.set(onNode(pod("b"), "other"))
		f.set(onNode(pod("stranger"), "m"))
		f.set(onNode(pod("waits"), ""))
		r := f.run()
		require.Equal(t, []string{"snapshot a b"}, r.take())
		f.set(onNode(pod("waits"), "other"))
		f.set(onNode(pod("stranger-2"), "m"))
		f.remove("a")
		synctest.Wait()
		require.Equal(t, []string{"upsert waits", "remove a"}, r.take())
		require.NoError(t, r.stop())
		require.Empty(t, f.told())
		require.Equal(t, "spec.nodeName!=", f.selectors[0])
		f.config.Nodes = func(name types.NodeName) bool { return name == "" }
		r = f.run()
		f.set(onNode(pod("unbound"), ""))
		synctest.Wait()
		require.Equal(t, []string{"snapshot", "upsert unbound"}, r.take())
		require.NoError(t, r.stop())
		f.config.NodeName = "n"
		_, err := podwatch.New(f.config)
		require.ErrorContains(t, err, "NodeName and Nodes are both set")
	})
}

func TestRunTellsThatThereIsNothing(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				mode(f)
				r := f.run()
				require.Equal(t, []string{"snapshot"}, r.take())
				require.NoError(t, r.stop())
			})
		})
	}
}

// A bookmark advances the resource version for the next watch, and submits no change.
func TestRunTellsNothingOfBookmarks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(pod("a"))
		r := f.run()
		require.Equal(t, []string{"snapshot a"}, r.take())
		for range 3 {
			f.bookmark()
		}
		synctest.Wait()
		f.asked()
		r.pass(10 * time.Second)
		f.cut()
		r.pass(time.Second)
		require.Empty(t, r.take())
		require.Equal(t, []string{"watch 5"}, f.asked())
		require.NoError(t, r.stop())
	})
}

func TestRunWaitsForTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		known := make(chan struct{})
		f := newFixture(t, func(c *podwatch.Config) {
			c.NodeKnown = func(ctx context.Context) error {
				select {
				case <-known:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		r := f.run()
		r.pass(time.Hour)
		require.Empty(t, f.asked())
		require.Empty(t, r.take())
		close(known)
		synctest.Wait()
		require.Equal(t, []string{"snapshot"}, r.take(), "at once")
		require.NoError(t, r.stop())
	})
}

func TestRunEndsWhileItWaitsForTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *podwatch.Config) {
			c.NodeKnown = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		})
		r := f.run()
		require.NoError(t, r.stop())
		require.Empty(t, f.asked())
	})
}

func TestRunFailsWithTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cause := errors.New("no such node")
		f := newFixture(t, func(c *podwatch.Config) { c.NodeKnown = func(context.Context) error { return cause } })
		s, err := podwatch.New(f.config)
		require.NoError(t, err)
		require.ErrorIs(t, s.Run(t.Context(), &sink{}), cause)
		require.ErrorIs(t, s.Run(t.Context(), &sink{}), podwatch.ErrRunning)
	})
}

func TestRunEndsWithItsSink(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				mode(f)
				cause := errors.New("full")
				s, err := podwatch.New(f.config)
				require.NoError(t, err)
				require.ErrorIs(t, s.Run(t.Context(), &sink{err: cause}), cause)
				synctest.Wait()
				require.Zero(t, f.openStreams())

				s, err = podwatch.New(f.config)
				require.NoError(t, err)
				out := &sink{}
				done := make(chan error, 1)
				go func() { done <- s.Run(t.Context(), out) }()
				synctest.Wait()
				out.mu.Lock()
				out.err = cause
				out.mu.Unlock()
				f.set(pod("a"))
				require.ErrorIs(t, <-done, cause)
			})
		})
	}
}

// TestRunEnds expects Run to return at once with all goroutines, whatever it waits for. A leaked
// goroutine fails the bubble.
func TestRunEnds(t *testing.T) {
	hang := func(verbs ...string) func(f *fixture) {
		return func(f *fixture) {
			f.break_(func(verb string, _ http.ResponseWriter, r *http.Request) bool {
				for _, v := range verbs {
					if v == verb {
						<-r.Context().Done()
						return true
					}
				}
				return false
			})
		}
	}
	tests := []struct {
		name  string
		setUp func(f *fixture)
	}{
		{"in a watch", func(*fixture) {}},
		{"in a watch after a list", func(f *fixture) { f.noStream = true }},
		{"opening a watch-list", hang("watch-list")},
		{"in a list", func(f *fixture) { f.config.WithoutWatchList = true; hang("list")(f) }},
		{"opening a watch", func(f *fixture) { f.config.WithoutWatchList = true; hang("watch")(f) }},
		{"in the backoff of a server that is down", func(f *fixture) { f.kill() }},
		{"in the backoff of a server that is down, listing", func(f *fixture) { f.config.WithoutWatchList = true; f.kill() }},
		{"in the initial events", func(f *fixture) {
			f.break_(func(verb string, w http.ResponseWriter, r *http.Request) bool {
				if verb != "watch-list" {
					return false
				}
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			})
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, after := range []time.Duration{0, 40 * time.Second} {
				bubble(t, func(t *testing.T) {
					f := newFixture(t)
					tc.setUp(f)
					r := f.run()
					r.pass(after)
					before := time.Now()
					require.NoError(t, r.stop())
					require.Equal(t, before, time.Now(), "at once")
					synctest.Wait()
					require.Zero(t, f.openStreams())
				})
			}
		})
	}
}

// TestRunMergesWhatWasMissed creates a thousand pods and deletes others during a disconnection.
func TestRunMergesWhatWasMissed(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				mode(f)
				for _, n := range names(500, "old-%03d") {
					f.set(pod(n))
				}
				store, err := podconfig.NewStore(podconfig.StoreOptions{})
				require.NoError(t, err)
				ops := map[podconfig.Op]int{}
				source, err := podwatch.New(f.config)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- podconfig.Run(ctx, store, func(_ context.Context, u podconfig.Update) error {
						ops[u.Op] += len(u.Pods)
						return nil
					}, source)
				}()
				time.Sleep(10 * time.Second)
				f.kill()
				for _, n := range names(500, "old-%03d") {
					f.remove(podUID(n))
				}
				for _, n := range names(500, "new-%03d") {
					f.set(pod(n))
				}
				f.compact()
				f.start()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				require.Equal(t, map[podconfig.Op]int{podconfig.OpAdd: 1000, podconfig.OpRemove: 500}, ops, "each once")
				held := 0
				for range store.Pods() {
					held++
				}
				require.Equal(t, 500, held)
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}
