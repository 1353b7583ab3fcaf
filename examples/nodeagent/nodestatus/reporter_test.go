// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// machine is a node that reports its status to a server.
type machine struct {
	*server
	*nodestatus.Reporter
	facts nodestatus.Facts // changed by edit
}

// on runs a test in virtual time with a running node.
func on(t *testing.T, prepare func(*server, *nodestatus.Options), test func(*testing.T, *machine)) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{server: &server{t: t}, facts: nodestatus.Facts{
			Capacity:    v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
			Addresses:   []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.7"}, {Type: v1.NodeInternalIP, Address: "fd00::7"}},
		}}
		opts := nodestatus.Options{
			NodeName: "gw", Nodes: nodes{m.server}, Leases: leases{m.server},
			Facts: func(context.Context) nodestatus.Facts {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.facts
			},
			Labels: map[string]string{"example.com/site": "north"},
			Taints: []v1.Taint{{Key: "edge", Effect: v1.TaintEffectNoSchedule}},
		}
		if prepare != nil {
			prepare(m.server, &opts)
		}
		var err error
		m.Reporter, err = nodestatus.New(opts)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		test(t, m)
		cancel()
		require.NoError(t, <-ended)
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// attachDetach is the annotation by which the attach-detach controller knows that a node leaves attachments to it.
const attachDetach = "volumes.kubernetes.io/controller-managed-attach-detach"

func TestANodeIsMadeAndReady(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		require.Equal(t, map[string]string{
			"example.com/site": "north", v1.LabelHostname: "gw", v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
			"beta.kubernetes.io/os": runtime.GOOS, "beta.kubernetes.io/arch": runtime.GOARCH,
		}, m.node.Labels)
		require.Equal(t, map[string]string{attachDetach: "true"}, m.node.Annotations)
		require.Equal(t, "edge", m.node.Spec.Taints[0].Key)
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
		require.Equal(t, m.facts.Addresses, m.node.Status.Addresses, "two of one type")
		require.Equal(t, m.node.UID, m.lease.OwnerReferences[0].UID)
		require.EqualValues(t, 40, *m.lease.Spec.LeaseDurationSeconds)
		got := m.taken()
		slices.Sort(got)
		require.Equal(t, []string{"create lease", "create node", "get lease", "patch node [status]"}, got)
	})
}

func TestANodeThatIsThereKeepsWhatOthersGaveIt(t *testing.T) {
	theirs := v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: "RouteCreated"}
	on(t, func(s *server, _ *nodestatus.Options) {
		s.node = &v1.Node{}
		s.node.Name, s.node.UID = "gw", "theirs"
		s.node.Labels = map[string]string{"theirs": "1", v1.LabelHostname: "wrong"}
		s.node.Annotations = map[string]string{"theirs": "2", attachDetach: "false"}
		s.node.Status.Conditions = []v1.NodeCondition{theirs}
		s.node.Status.Capacity = v1.ResourceList{"hugepages-2Mi": resource.MustParse("1"), "example.com/theirs": resource.MustParse("3")}
		s.node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	}, func(t *testing.T, m *machine) {
		require.EqualValues(t, "theirs", m.node.UID)
		require.Equal(t, "1", m.node.Labels["theirs"])
		require.Equal(t, "gw", m.node.Labels[v1.LabelHostname])
		require.Equal(t, map[string]string{"theirs": "2", attachDetach: "true"}, m.node.Annotations)
		require.Empty(t, m.node.Spec.Taints, "taints are for a node that is made")
		require.Equal(t, theirs, m.condition(v1.NodeNetworkUnavailable))
		require.Equal(t, m.facts.Addresses, m.node.Status.Addresses)
		require.Equal(t, "cpu=2/2 example.com/theirs=3/3", m.resources())
	})
}

// resources returns the allocatable and all resources of the node on the server.
func (s *server) resources() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.node.Status.Capacity)) {
		free, total := s.node.Status.Allocatable[name], s.node.Status.Capacity[name]
		all = append(all, fmt.Sprintf("%s=%s/%s", name, free.String(), total.String()))
	}
	if len(s.node.Status.Allocatable) > len(s.node.Status.Capacity) {
		all = append(all, "more is allocatable than there is")
	}
	return strings.Join(all, " ")
}

// An administrator advertises extended resources by a patch of the capacity. The node makes them
// allocatable, and does not write an older amount over a new one.
func TestResourcesOfAnAdministrator(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		set := func(amount string) {
			m.edit(func() {
				if amount == "" {
					delete(m.node.Status.Capacity, "example.com/theirs")
					return
				}
				m.node.Status.Capacity["example.com/theirs"] = resource.MustParse(amount)
			})
		}
		own := func(amount string) {
			m.edit(func() {
				list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), "example.com/own": resource.MustParse(amount)}
				m.facts.Capacity, m.facts.Allocatable = list, list
			})
			m.Poke()
			synctest.Wait()
		}
		const look = nodestatus.CheckInterval + 11*time.Second
		set("4")
		pass(look)
		require.Equal(t, "cpu=2/2 example.com/theirs=4/4", m.resources())
		set("3")
		own("2")
		require.Equal(t, "cpu=2/2 example.com/own=2/2 example.com/theirs=4/3", m.resources(), "the patch keeps the new amount")
		pass(look)
		require.Equal(t, "cpu=2/2 example.com/own=2/2 example.com/theirs=3/3", m.resources())
		set("")
		own("0")
		require.Equal(t, "cpu=2/2 example.com/own=0/0 more is allocatable than there is", m.resources(), "until the next read")
		pass(look)
		require.Equal(t, "cpu=2/2 example.com/own=0/0", m.resources())

		m.edit(func() { m.node.Status.Capacity["example.com/own"] = resource.MustParse("9") })
		pass(look)
		require.Equal(t, "cpu=2/2 example.com/own=0/0", m.resources(), "the node's own amounts are put back")
	})
}

// A machine that takes the name of another one does not have its devices.
func TestDevicesOfAnEarlierMachine(t *testing.T) {
	on(t, func(s *server, o *nodestatus.Options) {
		s.node = &v1.Node{}
		s.node.Name, s.node.UID = "gw", "theirs"
		s.node.Status.Capacity = v1.ResourceList{"example.com/gpu": resource.MustParse("3")}
		s.node.Status.Allocatable = s.node.Status.Capacity.DeepCopy()
		facts := o.Facts
		o.Facts = func(ctx context.Context) nodestatus.Facts {
			f := facts(ctx)
			f.IsNew = true
			return f
		}
	}, func(t *testing.T, m *machine) {
		require.Equal(t, "cpu=2/2 example.com/gpu=0/0", m.resources())
		m.edit(func() { m.node.Status.Capacity["example.com/gpu"] = resource.MustParse("1") })
		pass(10 * time.Minute)
		require.Equal(t, "cpu=2/2 example.com/gpu=1/1", m.resources(), "an administrator has set it since")
	})
}

// TestRenewalsAreSpread checks that a random time of up to 0.4 s delays a renewal after the interval
// of ten seconds.
func TestRenewalsAreSpread(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		waits := map[time.Duration]bool{}
		for range 10 {
			last := time.Now().Add(-m.age())
			pass(nodestatus.LeaseInterval + nodestatus.LeaseInterval/25)
			wait := time.Now().Add(-m.age()).Sub(last)
			require.GreaterOrEqual(t, wait, nodestatus.LeaseInterval)
			require.Less(t, wait, nodestatus.LeaseInterval+nodestatus.LeaseInterval/25)
			waits[wait] = true
		}
		require.Greater(t, len(waits), 5)
	})
}

// An unchanged node for an hour: a status every five minutes, a read every minute, a renewal every
// ten seconds.
func TestAnHourOfNothing(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		m.taken()
		count := map[string]int{}
		for range 360 {
			pass(10 * time.Second)
			require.Less(t, m.age(), nodestatus.LeaseDuration/2)
		}
		for _, r := range m.taken() {
			count[r]++
		}
		assert.InDelta(t, 12, count["patch node [status]"], 1)
		assert.InDelta(t, 60, count["get node"], 13)
		assert.InDelta(t, 355, count["update lease"], 8)
		assert.Len(t, count, 3)
	})
}

func TestAChangeIsToldAtOnce(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		pass(3 * time.Second)
		since := m.condition(v1.NodeReady).LastTransitionTime
		m.taken()
		m.edit(func() { m.facts.NotReady = errors.New("the container runtime is down") })
		m.Poke()
		synctest.Wait()
		require.Equal(t, []string{"patch node [status]"}, m.taken())
		c := m.condition(v1.NodeReady)
		require.Equal(t, v1.ConditionFalse, c.Status)
		require.Equal(t, nodestatus.ReasonNotReady, c.Reason)
		require.Equal(t, "the container runtime is down", c.Message)
		require.Equal(t, 3*time.Second, c.LastTransitionTime.Sub(since.Time))

		pass(time.Minute)
		require.Equal(t, c.LastTransitionTime, m.condition(v1.NodeReady).LastTransitionTime)
	})
}

// The kubelet logs "node not found" every ten seconds until a restart.
func TestADeletedNodeIsMadeAgain(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		m.edit(func() { m.node, m.lease = nil, nil }) // the garbage collector takes the lease with it
		pass(nodestatus.CheckInterval + time.Second)
		require.Equal(t, 2, m.made)
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
		require.Equal(t, "edge", m.node.Spec.Taints[0].Key)
		pass(nodestatus.LeaseInterval)
		require.Equal(t, m.node.UID, m.lease.OwnerReferences[0].UID)
	})
}

// A controller that missed lease renewals marks the node as dead. The node is alive, and its facts
// are unchanged.
func TestANodeThatWasTakenForDeadSaysThatItLives(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		m.edit(func() { m.down = errors.New("no route to host") })
		pass(2 * time.Minute)
		m.edit(func() {
			m.down = nil
			for i := range m.node.Status.Conditions {
				m.node.Status.Conditions[i].Status = v1.ConditionUnknown
			}
		})
		pass(15 * time.Second)
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
	})
}

// Run goes on while the server is unreachable, and a hanging request for the node does not delay
// the lease.
func TestAServerThatHangs(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		m.edit(func() { m.hang = true })
		pass(10 * time.Minute)
		m.edit(func() { m.hang = false })
		pass(2*nodestatus.RequestTimeout + 10*time.Second)
		require.Less(t, m.age(), nodestatus.LeaseDuration/2)
	})
}

func TestAServerThatComesLate(t *testing.T) {
	on(t, func(s *server, _ *nodestatus.Options) { s.down = errors.New("connection refused") }, func(t *testing.T, m *machine) {
		pass(time.Hour)
		require.Less(t, len(m.taken()), 3*3600/7, "it is asked at most every seven seconds")
		m.edit(func() { m.down = nil })
		pass(8 * time.Second)
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
		require.Less(t, m.age(), nodestatus.LeaseDuration/2)
	})
}

func TestALeaseThatSomebodyElseWrote(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		m.edit(func() { m.lease.ResourceVersion = "theirs" })
		pass(11 * time.Second)
		require.Less(t, m.age(), 2*time.Second)
	})
}

// A change of pressure is in the status after Poke, and the API server's condition stays while nothing
// is known.
func TestPressure(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		require.Empty(t, m.condition(v1.NodeMemoryPressure), "nothing is known of it")
		for _, under := range []bool{false, true} {
			m.edit(func() { m.facts.Pressure = map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: under} })
			m.Poke()
			synctest.Wait()
			require.Equal(t, under, m.condition(v1.NodeMemoryPressure).Status == v1.ConditionTrue)
		}
		m.edit(func() { m.facts.Pressure = nil })
		pass(time.Hour)
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeMemoryPressure).Status)
	})
}

func TestLabelsThatAreForbidden(t *testing.T) {
	on(t, func(s *server, o *nodestatus.Options) {
		s.node = &v1.Node{}
		s.node.Name, s.node.UID = "gw", "theirs"
		o.Nodes = forbidding{nodes{s}}
	}, func(t *testing.T, m *machine) {
		require.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
	})
}

// forbidding lets a node write only its status, and not create its Node object.
type forbidding struct{ nodes }

func (f forbidding) Create(context.Context, *v1.Node, metav1.CreateOptions) (*v1.Node, error) {
	return nil, apierrors.NewForbidden(nodeResource, "gw", errors.New("no"))
}

func (f forbidding) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*v1.Node, error) {
	if len(sub) == 0 {
		return nil, apierrors.NewForbidden(nodeResource, name, errors.New("no"))
	}
	return f.nodes.Patch(ctx, name, kind, data, o, sub...)
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	good := func() nodestatus.Options {
		return nodestatus.Options{NodeName: "gw", Nodes: nodes{}, Facts: func(context.Context) nodestatus.Facts { return nodestatus.Facts{} }}
	}
	for field, spoil := range map[string]func(*nodestatus.Options){
		"NodeName": func(o *nodestatus.Options) { o.NodeName = "A_B" },
		"Nodes":    func(o *nodestatus.Options) { o.Nodes = nil },
		"Facts":    func(o *nodestatus.Options) { o.Facts = nil },
		"Labels":   func(o *nodestatus.Options) { o.Labels = map[string]string{"a b": "c"} },
	} {
		o := good()
		spoil(&o)
		_, err := nodestatus.New(o)
		require.ErrorIs(t, err, nodestatus.ErrOptions)
		require.ErrorContains(t, err, field)
	}
	r, err := nodestatus.New(good())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx))
	require.Error(t, r.Run(ctx))
}

// Options of the kubelet's configuration: how often a node is looked at, told and renewed, and what a
// new node has.
func TestFrequencies(t *testing.T) {
	var looks atomic.Int32
	on(t, func(_ *server, o *nodestatus.Options) {
		o.UpdateInterval, o.ReportInterval, o.LeaseDuration = 30*time.Second, time.Minute, 4*time.Second
		o.ProviderID, o.MaxImages = "cloud:///a/b", -1
		o.Facts = func(context.Context) nodestatus.Facts {
			looks.Add(1)
			return nodestatus.Facts{Images: make([]v1.ContainerImage, 60)}
		}
	}, func(t *testing.T, m *machine) {
		m.edit(func() {
			require.Equal(t, "cloud:///a/b", m.node.Spec.ProviderID)
			require.EqualValues(t, 4, *m.lease.Spec.LeaseDurationSeconds)
			require.Len(t, m.node.Status.Images, 60)
		})
		pass(29 * time.Second)
		require.EqualValues(t, 1, looks.Load())
		pass(2 * time.Second)
		require.EqualValues(t, 2, looks.Load())
		m.taken()
		pass(10 * time.Minute)
		count := map[string]int{}
		for _, r := range m.taken() {
			count[r]++
		}
		assert.InDelta(t, 10, count["patch node [status]"], 1)
		assert.InDelta(t, 590, count["update lease"], 15)

		m.edit(func() { m.hang = true })
		pass(4 * time.Second)
		m.taken()
		pass(40 * time.Second)
		assert.GreaterOrEqual(t, len(slices.DeleteFunc(m.taken(), func(r string) bool { return r != "update lease" })), 7,
			"a request that hangs ends with the lease")
	})
}

func TestOptionsThatAreRefused(t *testing.T) {
	for _, change := range []func(*nodestatus.Options){
		func(o *nodestatus.Options) { o.UpdateInterval = -1 },
		func(o *nodestatus.Options) { o.ReportInterval = -1 },
		func(o *nodestatus.Options) { o.LeaseDuration = 1500 * time.Millisecond },
		func(o *nodestatus.Options) { o.LeaseDuration = -time.Second },
	} {
		s := &server{t: t}
		o := nodestatus.Options{NodeName: "gw", Nodes: nodes{s}, Facts: func(context.Context) nodestatus.Facts { return nodestatus.Facts{} }}
		_, err := nodestatus.New(o)
		require.NoError(t, err)
		change(&o)
		_, err = nodestatus.New(o)
		require.ErrorIs(t, err, nodestatus.ErrOptions)
	}
}
