// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// The kubelet does not connect a changed object to its volumes; a timer refreshes the volumes.
func TestUpstream30189AChangeIsToldAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.Register(pod("p", "a"))
		f.pass(time.Minute)
		begun := time.Now()
		f.set(configMap("a", "2"))
		assert.Equal(t, []string{"a=2"}, f.changed())
		assert.Zero(t, time.Since(begun))
	})
}

func TestWhatIsKnownIsServedWhileTheServerIsAway(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.set(configMap("b", "1"))
		f.Register(pod("p", "a", "b", "none"))
		synctest.Wait()
		f.kill()
		f.pass(2 * time.Minute)
		assert.Equal(t, "1", f.look(cmRef("a")))
		assert.Equal(t, "none", f.look(cmRef("none")))
		assert.Equal(t, []string{"get Unreachable"}, trim(f.problems()), "once for all objects")

		f.set(configMap("a", "2"))
		f.remove(cmRef("b"))
		f.set(configMap("none", "3"))
		f.start()
		f.pass(25 * time.Second)
		assert.ElementsMatch(t, []string{"a=2", "b=none", "none=3"}, f.changed())
		assert.Equal(t, []string{"ok"}, f.problems())
		assert.Equal(t, 3, f.openWatches())
	})
}

// trim removes the names of objects from problems of the server.
func trim(problems []string) []string {
	for i, p := range problems {
		var verb, reason string
		if _, err := fmt.Sscan(p, &verb, &reason); err == nil {
			problems[i] = verb + " " + reason
		}
	}
	return problems
}

// During an outage the server gets a single attempt at a time, whatever the number of objects.
func TestAnOutageIsProbedOnceForAllObjects(t *testing.T) {
	bubble(t, func(f *fixture) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("c", i))
			f.set(configMap(names[i], "1"))
		}
		f.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			fail(w, apierrors.NewInternalError(fmt.Errorf("no")))
			return true
		})
		f.Register(pod("p", names...))
		f.pass(5 * time.Minute)
		assert.Less(t, len(f.took()), 60, "8 at once, then one every 10 to 20 seconds")
		assert.Equal(t, []string{"get Server"}, trim(f.problems()))
		f.break_(func(verb string, _ objects.Ref, _ http.ResponseWriter, _ *http.Request) bool {
			if verb == "get" {
				time.Sleep(time.Second)
			}
			return false
		})
		f.pass(40 * time.Second)
		assert.Equal(t, 100, f.openWatches(), "several at a time")
		assert.Len(t, f.took(), 200)
		assert.Equal(t, []string{"ok"}, f.problems())
	})
}

func TestAWaitLastsThroughAShortOutage(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.kill()
		f.Register(pod("p", "a"))
		time.AfterFunc(time.Second, f.start)
		assert.Equal(t, "1", f.look(cmRef("a")))
		assert.Empty(t, f.changed(), "nobody was told that it is not known")
	})
}

func TestWhoAskedInVainIsToldLater(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.kill()
		f.Register(pod("p", "a"))
		begun := time.Now()
		assert.Equal(t, "Unreachable?", f.look(cmRef("a")))
		assert.Equal(t, volumeapi.AnswerPatience, time.Since(begun))
		f.start()
		f.pass(30 * time.Second)
		assert.Equal(t, []string{"a=1"}, f.changed())
	})
}

// The Node authorizer knows a pod a little later than the node does.
func TestARefusalThatSoonEndsIsNoProblem(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.break_(forbid)
		time.AfterFunc(200*time.Millisecond, func() { f.break_(nil) })
		f.Register(pod("p", "a"))
		begun := time.Now()
		assert.Equal(t, "1", f.look(cmRef("a")))
		assert.Less(t, time.Since(begun), time.Second)
		assert.Empty(t, f.problems())
	})
}

func forbid(_ string, ref objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
	fail(w, apierrors.NewForbidden(configMaps, ref.Name, fmt.Errorf("no relationship found")))
	return true
}

func TestARefusalThatStaysIsToldOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.set(configMap("b", "1"))
		f.break_(func(verb string, ref objects.Ref, w http.ResponseWriter, r *http.Request) bool {
			return ref.Name == "b" && forbid(verb, ref, w, r)
		})
		f.Register(pod("p", "a", "b"))
		assert.Equal(t, "1", f.look(cmRef("a")), "one does not stand for all")
		assert.Equal(t, "Forbidden?", f.look(cmRef("b")))
		f.pass(10 * time.Minute)
		assert.Equal(t, []string{"get Forbidden b"}, f.problems())
		f.took()
		f.pass(10 * time.Minute)
		assert.InDelta(t, 26, len(f.took()), 14, "two requests every 30 to 60 seconds")
		f.Register(pod("q", "b"))
		f.pass(100 * time.Millisecond)
		assert.NotEmpty(t, f.took(), "a new pod is a new reason to ask")
		f.break_(nil)
		f.pass(500 * time.Millisecond)
		assert.Equal(t, []string{"b=1"}, f.changed())
		f.pass(10 * time.Second)
		assert.Equal(t, []string{"ok"}, f.problems())
	})
}

func TestAProblemEndsWithThePodThatHadIt(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.break_(forbid)
		f.Register(pod("p", "a"))
		f.pass(time.Minute)
		assert.Equal(t, []string{"get Forbidden a"}, f.problems())
		f.Unregister("p")
		assert.Equal(t, []string{"ok"}, f.problems())
	})
}

// An answer of another server or proxy does not prove that an object is missing.
func TestNotFoundIsBelievedOfTheServerOnly(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, ref objects.Ref){
		"page of a proxy":     func(w http.ResponseWriter, _ objects.Ref) { http.Error(w, "404 page not found: "+password, 404) },
		"page of an error":    func(w http.ResponseWriter, _ objects.Ref) { http.Error(w, password, 500) },
		"status without name": func(w http.ResponseWriter, _ objects.Ref) { fail(w, apierrors.NewNotFound(configMaps, "")) },
		"another object":      func(w http.ResponseWriter, _ objects.Ref) { fail(w, missing(cmRef("other"))) },
		"any JSON":            func(w http.ResponseWriter, _ objects.Ref) { _, _ = w.Write([]byte(`{"x":"` + password + `"}`)) },
		"no JSON":             func(w http.ResponseWriter, _ objects.Ref) { _, _ = w.Write([]byte(password)) },
		"nothing":             func(http.ResponseWriter, objects.Ref) {},
		"the wrong object":    func(w http.ResponseWriter, _ objects.Ref) { _ = json.NewEncoder(w).Encode(configMap("b", "1")) },
		"the wrong kind": func(w http.ResponseWriter, ref objects.Ref) {
			s := secretOf(ref.Name, "1")
			typed(s)
			_ = json.NewEncoder(w).Encode(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.break_(func(verb string, ref objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
					if verb == "get" {
						answer(w, ref)
					}
					return verb == "get"
				})
				assert.NotContains(t, []string{"none", "1"}, f.look(cmRef("a")), "of no pod")
				f.Register(pod("p", "a"))
				got := f.look(cmRef("a"))
				assert.NotContains(t, []string{"none", "1"}, got)
				assert.Contains(t, got, "?")
				f.break_(nil)
				f.pass(time.Minute)
				assert.Equal(t, "none", f.look(cmRef("a")))
			})
		})
	}
}

func TestEndsOfWatches(t *testing.T) {
	status := func(e *apierrors.StatusError) string {
		s := e.ErrStatus
		s.Kind, s.APIVersion = "Status", "v1"
		text, _ := json.Marshal(s)
		return fmt.Sprintf(`{"type":"ERROR","object":%s}`, text)
	}
	for name, line := range map[string]string{
		"410 Gone":       status(apierrors.NewResourceExpired("too old")),
		"an error":       status(apierrors.NewInternalError(fmt.Errorf("no"))),
		"garbage":        password + "\n",
		"half an event":  `{"type":"MODIFIED","object":{"kind":"ConfigMap","data":{"k":"` + password,
		"another kind":   `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1"}}`,
		"an unknown one": `{"type":"MODIFIED","object":{"kind":"` + password + `","apiVersion":"x/y"}}`,
		"no object":      `{"type":"MODIFIED"}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.set(configMap("a", "1"))
				f.break_(func(verb string, _ objects.Ref, w http.ResponseWriter, r *http.Request) bool {
					if verb != "watch" {
						return false
					}
					flush := http.NewResponseController(w)
					_ = flush.Flush()
					time.Sleep(10 * time.Second)
					_, _ = w.Write([]byte(line + "\n"))
					_ = flush.Flush()
					return true
				})
				f.Register(pod("p", "a"))
				f.pass(9 * time.Second)
				assert.Equal(t, "1", f.look(cmRef("a")))
				f.break_(nil)
				f.set(configMap("a", "2"))
				f.pass(3 * time.Second)
				assert.Equal(t, []string{"a=2"}, f.changed())
				assert.Equal(t, 1, f.openWatches())
				assert.Empty(t, f.problems(), "it worked for a while")
			})
		})
	}
}

// A node behind a proxy without streaming, or with the right to get only, requests objects
// periodically.
func TestWithoutWatchesObjectsAreAskedForNowAndThen(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"forbidden":    func(w http.ResponseWriter, r *http.Request) { forbid("", cmRef("a"), w, r) },
		"held back":    hang,
		"ends at once": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.set(configMap("a", "1"))
				f.break_(func(verb string, _ objects.Ref, w http.ResponseWriter, r *http.Request) bool {
					if verb == "watch" {
						answer(w, r)
					}
					return verb == "watch"
				})
				f.Register(pod("p", "a"))
				f.pass(10*time.Second + time.Millisecond)
				assert.Equal(t, "1", f.look(cmRef("a")))
				f.set(configMap("a", "2"))
				f.pass(5 * time.Minute)
				assert.Equal(t, []string{"a=2"}, f.changed())
				problems := f.problems()
				assert.Len(t, problems, 1, problems)
				f.break_(nil)
				f.pass(2 * time.Minute)
				assert.Equal(t, []string{"ok"}, f.problems())
			})
		})
	}
}

func TestASlowServerIsAskedAgain(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "1"))
		f.break_(func(verb string, _ objects.Ref, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		f.Register(pod("p", "a"))
		assert.Equal(t, "Timeout?", f.look(cmRef("a")))
		f.pass(time.Minute)
		assert.Equal(t, []string{"get Timeout"}, trim(f.problems()))
		f.break_(nil)
		f.pass(30 * time.Second)
		assert.Equal(t, []string{"a=1"}, f.changed())
		assert.Equal(t, []string{"ok"}, f.problems())
	})
}

// After many watches cut in the middle of events, the final state is right.
func TestCutsLoseNothing(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.set(configMap("a", "0"))
		f.Register(pod("p", "a"))
		for i := range 50 {
			f.pass(time.Duration(i) * 97 * time.Millisecond)
			f.set(configMap("a", fmt.Sprint(i)))
			f.cut()
			if i%7 == 0 {
				f.remove(cmRef("a"))
			}
		}
		f.pass(70 * time.Second) // the longest pause, because no watch was stable
		assert.Equal(t, "none", f.look(cmRef("a")))
		f.set(configMap("a", "end"))
		f.changed()
		assert.Equal(t, "end", f.look(cmRef("a")))
		assert.Equal(t, 1, f.openWatches())
	})
}
