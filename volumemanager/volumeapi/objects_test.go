// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// An object takes two requests, in this order, and then events: no list, because a server delays
// lists.
func TestObjectsAreWatchedWhilePodsUseThem(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.set(secretOf("s", "1"))
		f.Register(withSecret(pod("p", "a"), "s"))
		require.Equal(t, "1", f.look(cmRef("a")))
		require.Equal(t, "1", f.look(secretRef("s")))
		synctest.Wait()
		assert.ElementsMatch(t, []string{"watch ConfigMap a", "get ConfigMap a", "watch Secret s", "get Secret s"}, f.took())
		assert.Equal(t, 2, f.openWatches())
		assert.Empty(t, f.changed(), "nobody has asked in vain")

		f.set(configMap("a", "2"))
		assert.Equal(t, []string{"a=2"}, f.changed())
		f.set(secretOf("s", "2"))
		assert.Equal(t, []string{"s=2"}, f.changed())
		assert.Empty(t, f.took(), "answers come from memory")

		f.Register(pod("q", "a"))
		f.Unregister("p")
		synctest.Wait()
		assert.Equal(t, 1, f.openWatches(), "q still uses a")
		f.Unregister("q")
		f.Unregister("never seen")
		synctest.Wait()
		assert.Zero(t, f.openWatches())
		assert.Empty(t, f.Snapshot())
		assert.Empty(t, f.problems())
	})
}

func TestAPodThatChangesReplacesWhatItUses(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.Register(pod("p", "a", "b"))
		synctest.Wait()
		f.Register(pod("p", "b", "c"))
		f.Register(pod("p", "b", "c"))
		synctest.Wait()
		assert.Empty(t, f.phase(cmRef("a")))
		assert.EqualValues(t, volumeapi.PhaseWatching, f.phase(cmRef("b")))
		assert.EqualValues(t, volumeapi.PhaseWatching, f.phase(cmRef("c")))
		assert.Equal(t, 2, f.openWatches())
		assert.Equal(t, 1, f.Snapshot()[cmRef("b")].Pods)
	})
}

func TestOnlyContentIsAChange(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.Register(pod("p", "a"))
		f.look(cmRef("a"))
		labelled := configMap("a", "1")
		labelled.Labels = map[string]string{"x": "y"}
		labelled.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		f.set(labelled)
		assert.Empty(t, f.changed())
		cm, err := f.ConfigMap(f.Context(), "ns", "a")
		require.NoError(t, err)
		assert.Equal(t, "y", cm.Labels["x"])
		assert.Empty(t, cm.ManagedFields)
		binary := configMap("a", "1")
		binary.BinaryData = map[string][]byte{"b": {1}}
		f.set(binary)
		assert.Equal(t, []string{"a=1"}, f.changed())
	})
}

func TestObjectsComeAndGo(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.Register(pod("p", "a"))
		assert.Equal(t, "none", f.look(cmRef("a")))
		f.set(configMap("a", "1"))
		assert.Equal(t, []string{"a=1"}, f.changed())
		f.remove(cmRef("a"))
		assert.Equal(t, []string{"a=none"}, f.changed())
		f.set(configMap("a", "1"))
		assert.Equal(t, []string{"a=1"}, f.changed())
		assert.Equal(t, "none", f.look(secretRef("a")), "another kind of the same name")
	})
}

func TestObjectsOfNoPodAreAskedForEachTime(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		assert.Equal(t, "1", f.look(cmRef("a")))
		f.set(configMap("a", "2"))
		assert.Equal(t, "2", f.look(cmRef("a")))
		assert.Equal(t, "none", f.look(secretRef("a")))
		assert.Equal(t, []string{"get ConfigMap a", "get ConfigMap a", "get Secret a"}, f.took())
		assert.Empty(t, f.changed())
	})
}

func TestImmutableObjectsAreLeftAlone(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(immutable(configMap("a", "1")))
		f.set(configMap("b", "1"))
		f.Register(pod("p", "a", "b"))
		assert.Equal(t, "1", f.look(cmRef("a")))
		synctest.Wait()
		assert.EqualValues(t, volumeapi.PhaseSettled, f.phase(cmRef("a")))
		assert.Equal(t, 1, f.openWatches())

		f.set(immutable(configMap("b", "2")))
		assert.Equal(t, []string{"b=2"}, f.changed())
		assert.EqualValues(t, volumeapi.PhaseSettled, f.phase(cmRef("b")))
		assert.Zero(t, f.openWatches())
		f.took()
		f.pass(3 * time.Hour)
		assert.Empty(t, f.took(), "nothing is asked for any more")
	})
}

// The kubelet serves the old object as long as any pod uses the object.
func TestAnImmutableObjectMadeAnewIsSeenByTheNextPod(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(immutable(configMap("a", "1")))
		f.Register(pod("p", "a"))
		f.look(cmRef("a"))
		f.remove(cmRef("a"))
		f.set(immutable(configMap("a", "2")))
		assert.Empty(t, f.changed())
		f.took()
		f.Register(pod("q", "a"))
		assert.Equal(t, []string{"a=2"}, f.changed())
		assert.Equal(t, []string{"get ConfigMap a"}, f.took(), "one request")
		f.remove(cmRef("a"))
		f.set(configMap("a", "3"))
		f.Register(pod("r", "a"))
		assert.Equal(t, []string{"a=3"}, f.changed())
		assert.Equal(t, 1, f.openWatches(), "it can change again")
	})
}

// A server's cache may be behind its database: older events do not replace content read from the
// database.
func TestEventsFromBeforeTheAnswerChangeNothing(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.set(configMap("b", "1"))
		f.lag()
		f.set(configMap("a", "2"))
		f.remove(cmRef("b"))
		f.set(configMap("b", "2"))
		f.Register(pod("p", "a", "b"))
		assert.Equal(t, "2", f.look(cmRef("a")))
		f.catchUp()
		assert.Empty(t, f.changed())
		assert.Equal(t, "2", f.look(cmRef("a")))
		assert.Equal(t, "2", f.look(cmRef("b")))
		f.set(configMap("a", "3"))
		assert.Equal(t, []string{"a=3"}, f.changed())
		f.remove(cmRef("b"))
		assert.Equal(t, []string{"b=none"}, f.changed())
	})
}

// The watch is opened before the object is requested: a change in between is received twice, and
// never missed.
func TestNothingIsMissedBetweenTheRequests(t *testing.T) {
	for _, when := range []string{"watch", "get"} {
		t.Run("before the "+when, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.set(configMap("a", "1"))
				var once sync.Once
				f.break_(func(verb string, ref objects.Ref, _ http.ResponseWriter, _ *http.Request) bool {
					if verb == when {
						once.Do(func() { f.remove(ref) })
					}
					return false
				})
				f.Register(pod("p", "a"))
				synctest.Wait()
				assert.Equal(t, "none", f.look(cmRef("a")))
				f.set(configMap("a", "2"))
				f.changed()
				assert.Equal(t, "2", f.look(cmRef("a")))
			})
		})
	}
}

// A server or fake without field selectors sends the events of all objects.
func TestEventsOfOtherObjectsChangeNothing(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.break_(func(verb string, _ objects.Ref, w http.ResponseWriter, r *http.Request) bool {
			if verb == "watch" {
				other, foreign := configMap("b", "2"), configMap("a", "3")
				foreign.Namespace = "elsewhere"
				for i, cm := range []*v1.ConfigMap{other, foreign} {
					typed(cm)
					cm.ResourceVersion = fmt.Sprint(1000 + i)
					_ = json.NewEncoder(w).Encode(event{Type: "MODIFIED", Object: cm})
				}
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			return verb == "watch"
		})
		f.Register(pod("p", "a"))
		f.pass(time.Minute)
		assert.Empty(t, f.changed())
		assert.Equal(t, "1", f.look(cmRef("a")))
	})
}

func TestOpensAreBounded(t *testing.T) {
	bubble(t, func(f *fixture) {
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("c%02d", i))
			f.set(configMap(names[i], "1"))
		}
		f.break_(func(string, objects.Ref, http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Millisecond)
			return false
		})
		f.Register(pod("p", names...))
		f.pass(time.Second)
		assert.Equal(t, 50, f.openWatches())
		f.server.mu.Lock()
		defer f.server.mu.Unlock()
		assert.Equal(t, 8, f.most)
	})
}

// An hour without changes costs only the renewal of the watch.
func TestIdleObjectsSendNothing(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.Register(pod("p", "a"))
		synctest.Wait()
		f.took()
		f.pass(29 * time.Minute)
		assert.Empty(t, f.took())
		f.pass(32 * time.Minute)
		assert.Equal(t, []string{"watch ConfigMap a", "get ConfigMap a"}, f.took()[:2])
		assert.Equal(t, 1, f.openWatches())
		assert.Empty(t, f.problems())
	})
}

func TestRunEnds(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.Register(pod("p", "a"))
		f.look(cmRef("a"))
		assert.ErrorIs(t, f.Objects.Run(f.Context()), volumeapi.ErrRunning)
		f.stop()
		assert.Equal(t, "1", f.look(cmRef("a")), "what is known is known")
		f.Register(pod("q", "b"))
		_, err := f.ConfigMap(f.Context(), "ns", "b")
		assert.ErrorIs(t, err, volumeapi.ErrStopped)
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Register(pod("p", "a"))
		why := fmt.Errorf("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		begun := time.Now()
		_, err := f.ConfigMap(ctx, "ns", "a")
		require.ErrorIs(t, err, why)
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Equal(t, "Timeout?", f.look(cmRef("a")))
		assert.Equal(t, time.Second+volumeapi.AnswerPatience, time.Since(begun))

		waiting := make(chan string)
		go func() { waiting <- f.look(cmRef("a")) }()
		synctest.Wait()
		f.set(configMap("a", "1"))
		f.Unregister("p")
		assert.Equal(t, "1", <-waiting, "it is asked for then")
		f.Register(pod("p", "a"))
		f.run()
		assert.Equal(t, "1", f.look(cmRef("a")))
		assert.Empty(t, f.changed(), "this entry was never asked for in vain")
		f.stop()
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]volumeapi.ObjectsOptions{
		"Client": {},
	} {
		_, err := volumeapi.NewObjects(o)
		require.ErrorIs(t, err, volumeapi.ErrOptions)
		assert.ErrorContains(t, err, "ObjectsOptions."+name)
	}
}
