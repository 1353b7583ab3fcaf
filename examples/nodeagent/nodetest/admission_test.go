// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func cpus(amount string) func(*nodeagent.Options) {
	return func(o *nodeagent.Options) {
		o.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
}

// count is how often something was asked of the runtime.
func count(n *nodetest.Node, on fake.Target) int { return len(n.World.Journal().Of(on)) }

// reasonOf is why a pod is as it is.
func reasonOf(n *nodetest.Node, name string) string { return n.Status(name).Reason }

func eventsOf(n *nodetest.Node, reason string) (pods []string) {
	for _, e := range n.History().Events {
		if e.Reason == reason {
			pods = append(pods, e.Pod)
		}
	}
	return pods
}

func TestAPodThatFindsNoRoomIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rejected []nodeagent.Rejection // by the loop alone
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *nodeagent.Options) {
			cpus("1")(o)
			o.Observer.PodRejected = func(r nodeagent.Rejection) { rejected = append(rejected, r) }
		}})
		first, second, third := nodetest.Pod("first", nodetest.Container("c"), cpu("600m")), nodetest.Pod("second", nodetest.Container("c"), cpu("600m")), nodetest.Pod("third", nodetest.Container("c"), cpu("600m"))
		node.Apply(first)
		time.Sleep(time.Second)
		node.Apply(first, second)
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, node.Status("first").Phase)
		status := node.Status("second")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "OutOfcpu", status.Reason)
		require.Equal(t, "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 600, capacity: 1000", status.Message)
		require.Equal(t, []string{"second"}, eventsOf(node, "OutOfcpu"))
		require.Equal(t, []nodeagent.Rejection{{Pod: rejected[0].Pod, Reason: "OutOfcpu", Message: strings.TrimPrefix(status.Message, "Pod was rejected: ")}}, rejected)
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpRunSandbox}))

		// The place is free once the first has gone, for those that come then.
		node.Apply(second, third)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, node.Status("third").Phase)
		require.Equal(t, v1.PodFailed, node.Status("second").Phase, "as the kubelet: refused is refused")
	})
}

// What ends frees its place by itself, too. #105523 and its kin: finished pods
// counted.
func TestUpstream105523APodThatIsOverTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("1")})
		node.World.Script(fake.Target{Container: "job"}, fake.Exit(time.Minute, 0))
		job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever), cpu("1"))
		node.Apply(job)
		time.Sleep(2 * time.Minute)
		require.Equal(t, v1.PodSucceeded, node.Status("job").Phase)
		node.Apply(job, nodetest.Pod("web", nodetest.Container("c"), cpu("1")))
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
	})
}

// A new agent hears of the new pod first, and finds less room than there was: who
// runs is not refused.
func TestPodsThatRunAreNotRefusedByANewAgent(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := "2"
				node := nodetest.New(t, nodetest.Options{Source: source, Agent: func(o *nodeagent.Options) { cpus(room)(o) }})
				zeta, yota := nodetest.Pod("zeta", nodetest.Container("c"), cpu("1")), nodetest.Pod("yota", nodetest.Container("c"), cpu("1"))
				node.Apply(zeta, yota)
				time.Sleep(time.Second)
				node.StopAgent()
				room = "1"
				node.Apply(nodetest.Pod("alpha", nodetest.Container("c"), cpu("500m")), zeta, yota)
				node.StartAgent()
				time.Sleep(time.Minute)
				require.Equal(t, v1.PodRunning, node.Status("zeta").Phase)
				require.Equal(t, v1.PodRunning, node.Status("yota").Phase)
				require.Len(t, starts(node, "c"), 2+runs(node, "alpha"), "nobody is started again")
			})
		})
	}
}

func runs(n *nodetest.Node, name string) int {
	if n.Status(name).Phase == v1.PodRunning {
		return 1
	}
	return 0
}

// The runtime does not say what it has: who asks for nothing comes in, who does
// waits until that is known.
func TestNobodyIsRefusedBeforeItIsKnownWhatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("1")})
		old := nodetest.Pod("old", nodetest.Container("c"), cpu("1"))
		node.Apply(old)
		time.Sleep(time.Second)
		node.StopAgent()
		fault, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Err: errors.New("not now")})
		require.NoError(t, err)
		node.Apply(nodetest.Pod("free", nodetest.Container("c")), old, nodetest.Pod("big", nodetest.Container("c"), cpu("1")))
		node.StartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, node.Status("free").Phase)
		require.Empty(t, node.Status("old").Phase)
		require.Empty(t, node.Status("big").Phase)
		fault.Clear()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, node.Status("old").Phase)
		require.Equal(t, "OutOfcpu", reasonOf(node, "big"))
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpStartContainer, Pod: "old"}))
	})
}

// The API server remembers that a pod was refused.
func TestARefusedPodStaysRefusedAcrossAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		room := "1"
		node := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *nodeagent.Options) { cpus(room)(o) }})
		pod := node.Bind(nodetest.Pod("big", nodetest.Container("c"), cpu("2")))
		time.Sleep(time.Second)
		require.Equal(t, "OutOfcpu", server.Get(pod.UID).Status.Reason)
		node.StopAgent()
		room = "4"
		node.StartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfcpu", server.Get(pod.UID).Status.Reason)
		require.Equal(t, 0, count(node, fake.Target{Op: fake.OpRunSandbox}))
	})
}

func TestACriticalPodIsGivenRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second})
		small := node.Bind(nodetest.Pod("small", nodetest.Container("c"), cpu("200m")))
		big := node.Bind(nodetest.Pod("big", nodetest.Container("c"), cpu("700m")))
		time.Sleep(time.Second)

		node.Apply(nodetest.Pod("critical", nodetest.Container("crit"), cpu("500m")))
		time.Sleep(5 * time.Second)
		require.Equal(t, 0, len(starts(node, "crit")), "its place is not free yet")
		node.Agent.NodeChanged(&v1.Node{}) // has the agent ask again, and end nobody twice
		node.Settle()
		require.Equal(t, []string{"big"}, eventsOf(node, "Preempting"))
		time.Sleep(10 * time.Second)
		require.Equal(t, v1.PodRunning, node.Status("critical").Phase)
		require.Equal(t, v1.PodRunning, node.Status("small").Phase)
		require.NotNil(t, server.Get(small.UID))
		status := server.Get(big.UID).Status
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "Preempting", status.Reason)
		require.Equal(t, "Preempted in order to admit critical pod", status.Message)
		require.NotNil(t, condition(status, v1.DisruptionTarget))
	})
}

func TestACriticalPodForWhichNoRoomCanBeMadeEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		node.Bind(nodetest.Pod("web", nodetest.Container("c"), cpu("700m")))
		node.Apply(nodetest.Pod("huge", nodetest.Container("crit"), cpu("1500m")))
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfcpu", reasonOf(node, "huge"))
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
	})
}

// A manifest is edited: the old pod's place is the new one's.
func TestAnEditedManifestFindsThePlaceOfTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Agent: cpus("1")})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("800m")))
		time.Sleep(time.Second)
		edited := nodetest.Pod("web", nodetest.Container("c"), cpu("900m"))
		edited.UID = "edited"
		node.Apply(edited)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
		require.Len(t, starts(node, "c"), 2)
		require.NoError(t, node.World.NoOverlap())
	})
}

// member is an API server's Node that may be away.
type member struct {
	sync.Mutex
	node *v1.Node
	hang bool
}

func (m *member) get(ctx context.Context) (*v1.Node, error) {
	m.Lock()
	node, hang := m.node, m.hang
	m.Unlock()
	if hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return node.DeepCopy(), nil
}

func (m *member) label(key, value string) {
	m.Lock()
	defer m.Unlock()
	m.node.Labels = map[string]string{key: value}
}

func (m *member) away(yes bool) {
	m.Lock()
	defer m.Unlock()
	m.hang = yes
}

func selecting(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// The label came a moment before the pod: the node is read again before the pod
// is refused.
func TestANodeIsReadAgainBeforeAPodIsRefusedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{node: &v1.Node{}}
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *nodeagent.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.label("disk", "fast")
		web := nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast"))
		node.Apply(web)
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)

		slow := nodetest.Pod("slow", nodetest.Container("c"), selecting("disk", "slow"))
		node.Apply(web, slow)
		require.Equal(t, "NodeAffinity", reasonOf(node, "slow"))

		// A node that loses its label keeps who runs there.
		m.label("disk", "none")
		node.RestartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
	})
}

// The API server does not answer: others are admitted meanwhile, and who it is
// asked for is judged by what was last known.
func TestAnAPIServerThatIsAwayHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{node: &v1.Node{}}
		m.label("disk", "fast")
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *nodeagent.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.away(true)
		slow := nodetest.Pod("slow", nodetest.Container("c"), selecting("disk", "slow"))
		node.Apply(slow, nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast")))
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
		require.Empty(t, node.Status("slow").Phase)
		time.Sleep(11 * time.Second)
		require.Equal(t, "NodeAffinity", reasonOf(node, "slow"))
	})
}

func TestTaintsAreForPodsOfAnAPIServer(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := nodetest.New(t, nodetest.Options{Source: source, Agent: func(o *nodeagent.Options) {
					o.NodeTaints = []v1.Taint{{Key: "out", Effect: v1.TaintEffectNoExecute}}
				}})
				node.Apply(nodetest.Pod("web", nodetest.Container("c")))
				time.Sleep(time.Second)
				require.Equal(t, source == podconfig.SourceAPI, reasonOf(node, "web") == "TaintToleration")
			})
		})
	}
}

// A pod that grows in place waits until there is room, and runs on meanwhile; a
// new agent knows what it has.
func TestAResizeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		web := node.Bind(nodetest.Pod("web", nodetest.Container("c"), cpu("400m")))
		other := node.Bind(nodetest.Pod("other", nodetest.Container("d"), cpu("400m")))
		time.Sleep(time.Second)
		resizeTo(node, server, web, "700m")
		pending := condition(node.Status("web"), v1.PodResizePending)
		require.NotNil(t, pending)
		require.Equal(t, v1.PodReasonDeferred, pending.Reason)
		require.Equal(t, "Node didn't have enough resource: cpu, requested: 700, used: 400, capacity: 1000", pending.Message)
		require.Equal(t, "400m", has(node, "web"))
		require.Equal(t, []string{"web"}, eventsOf(node, "ResizeDeferred"))
		require.Empty(t, eventsOf(node, "ResizeStarted"))

		node.RestartAgent()
		time.Sleep(time.Minute)
		require.NotNil(t, condition(node.Status("web"), v1.PodResizePending))
		require.Equal(t, "400m", has(node, "web"))

		resizeTo(node, server, web, "1100m")
		require.Equal(t, v1.PodReasonInfeasible, condition(node.Status("web"), v1.PodResizePending).Reason)
		resizeTo(node, server, web, "800m")
		require.Equal(t, v1.PodReasonDeferred, condition(node.Status("web"), v1.PodResizePending).Reason)

		node.Evict(other.UID)
		time.Sleep(time.Minute)
		require.Nil(t, condition(node.Status("web"), v1.PodResizePending))
		require.Equal(t, "800m", has(node, "web"))
		require.Len(t, starts(node, "c"), 1)
		require.Equal(t, []string{"web"}, eventsOf(node, "ResizeStarted"))
		require.Equal(t, []string{"web"}, eventsOf(node, "ResizeCompleted"))
	})
}

func has(n *nodetest.Node, name string) string {
	amount := n.Status(name).ContainerStatuses[0].Resources.Limits[v1.ResourceCPU]
	return amount.String()
}

func resizeTo(n *nodetest.Node, server *statustest.Server, pod *v1.Pod, amount string) {
	if _, err := server.Change(pod.UID, cpu(amount)); err != nil {
		panic(err) // there is such a pod
	}
	time.Sleep(time.Second)
	n.Settle()
}

func TestOldPodsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("2")})
		var pods []*v1.Pod
		for i, name := range []string{"a", "b", "c", "d"} {
			p := nodetest.Pod(name, nodetest.Container("c"), cpu("1"))
			p.CreationTimestamp.Time = time.Now().Add(-time.Duration(i) * time.Hour)
			pods = append(pods, p)
		}
		node.Apply(pods...)
		var run []string
		for _, p := range pods {
			if node.Status(p.Name).Phase == v1.PodRunning {
				run = append(run, p.Name)
			}
		}
		slices.Sort(run)
		require.Equal(t, []string{"c", "d"}, run)
	})
}

// Who watches the node tells the agent, which then reads nothing to admit a pod.
func TestTheAgentIsToldThatItsNodeHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{node: &v1.Node{}}
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *nodeagent.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.label("disk", "fast")
		m.away(true)
		node.Agent.NodeChanged(m.node)
		node.Settle()
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast")))
		require.Equal(t, v1.PodRunning, node.Status("web").Phase)
	})
}
