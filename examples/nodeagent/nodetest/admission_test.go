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

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func cpus(amount string) func(*node.Options) {
	return func(o *node.Options) {
		o.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
}

// count is how often something was asked of the runtime.
func count(n *nodetest.Node, on fake.Target) int { return len(n.World.Journal().Of(on)) }

// reasonOf returns the reason in the status of a pod.
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
		var rejected []feature.Refusal // by the loop alone
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) {
			cpus("1")(o)
			o.Observer.PodRejected = func(r feature.Refusal) { rejected = append(rejected, r) }
		}})
		first, second, third := nodetest.Pod("first", nodetest.Container("c"), cpu("600m")), nodetest.Pod("second", nodetest.Container("c"), cpu("600m")), nodetest.Pod("third", nodetest.Container("c"), cpu("600m"))
		host.Apply(first)
		time.Sleep(time.Second)
		host.Apply(first, second)
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, host.Status("first").Phase)
		status := host.Status("second")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "OutOfcpu", status.Reason)
		require.Equal(t, "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 600, capacity: 1000", status.Message)
		require.Equal(t, []string{"second"}, eventsOf(host, "OutOfcpu"))
		require.Equal(t, []feature.Refusal{{Pod: rejected[0].Pod, Reason: "OutOfcpu", Message: strings.TrimPrefix(status.Message, "Pod was rejected: ")}}, rejected)
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpRunSandbox}))

		// The place is free for new pods after the first pod is gone.
		host.Apply(second, third)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("third").Phase)
		require.Equal(t, v1.PodFailed, host.Status("second").Phase, "as the kubelet: refused is refused")
	})
}

// A pod that ends by itself releases its place, too. #105523 and similar issues: finished pods
// counted.
func TestUpstream105523APodThatIsOverTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("1")})
		host.World.Script(fake.Target{Container: "job"}, fake.Exit(time.Minute, 0))
		job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever), cpu("1"))
		host.Apply(job)
		time.Sleep(2 * time.Minute)
		require.Equal(t, v1.PodSucceeded, host.Status("job").Phase)
		host.Apply(job, nodetest.Pod("web", nodetest.Container("c"), cpu("1")))
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
	})
}

// A new agent receives the new pod first, and finds less room than before. Running pods are not
// refused.
func TestPodsThatRunAreNotRefusedByANewAgent(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := "2"
				host := nodetest.New(t, nodetest.Options{Source: source, Agent: func(o *node.Options) { cpus(room)(o) }})
				zeta, yota := nodetest.Pod("zeta", nodetest.Container("c"), cpu("1")), nodetest.Pod("yota", nodetest.Container("c"), cpu("1"))
				host.Apply(zeta, yota)
				time.Sleep(time.Second)
				host.StopAgent()
				room = "1"
				host.Apply(nodetest.Pod("alpha", nodetest.Container("c"), cpu("500m")), zeta, yota)
				host.StartAgent()
				time.Sleep(time.Minute)
				require.Equal(t, v1.PodRunning, host.Status("zeta").Phase)
				require.Equal(t, v1.PodRunning, host.Status("yota").Phase)
				require.Len(t, starts(host, "c"), 2+runs(host, "alpha"), "nobody is started again")
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

// While the runtime does not list its pods, pods without requests are admitted, and pods with
// requests wait.
func TestNobodyIsRefusedBeforeItIsKnownWhatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("1")})
		old := nodetest.Pod("old", nodetest.Container("c"), cpu("1"))
		host.Apply(old)
		time.Sleep(time.Second)
		host.StopAgent()
		fault, err := host.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Err: errors.New("not now")})
		require.NoError(t, err)
		host.Apply(nodetest.Pod("free", nodetest.Container("c")), old, nodetest.Pod("big", nodetest.Container("c"), cpu("1")))
		host.StartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("free").Phase)
		require.Empty(t, host.Status("old").Phase)
		require.Empty(t, host.Status("big").Phase)
		fault.Clear()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("old").Phase)
		require.Equal(t, "OutOfcpu", reasonOf(host, "big"))
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpStartContainer, Pod: "old"}))
	})
}

// The API server keeps the refusal of a pod.
func TestARefusedPodStaysRefusedAcrossAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		room := "1"
		host := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) { cpus(room)(o) }})
		pod := host.Bind(nodetest.Pod("big", nodetest.Container("c"), cpu("2")))
		time.Sleep(time.Second)
		require.Equal(t, "OutOfcpu", server.Get(pod.UID).Status.Reason)
		host.StopAgent()
		room = "4"
		host.StartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfcpu", server.Get(pod.UID).Status.Reason)
		require.Equal(t, 0, count(host, fake.Target{Op: fake.OpRunSandbox}))
	})
}

func TestACriticalPodIsGivenRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second, TermCode: 143})
		small := host.Bind(nodetest.Pod("small", nodetest.Container("c"), cpu("200m")))
		big := host.Bind(nodetest.Pod("big", nodetest.Container("c"), cpu("700m")))
		time.Sleep(time.Second)

		host.Apply(nodetest.Pod("critical", nodetest.Container("crit"), cpu("500m")))
		time.Sleep(5 * time.Second)
		require.Equal(t, 0, len(starts(host, "crit")), "its place is not free yet")
		host.Agent.NodeChanged(&v1.Node{}) // the agent checks again, and stops no pod twice
		host.Settle()
		require.Equal(t, []string{"big"}, eventsOf(host, "Preempting"))
		time.Sleep(10 * time.Second)
		require.Equal(t, v1.PodRunning, host.Status("critical").Phase)
		require.Equal(t, v1.PodRunning, host.Status("small").Phase)
		require.NotNil(t, server.Get(small.UID))
		status := server.Get(big.UID).Status
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "Preempting", status.Reason)
		require.Equal(t, "Preempted in order to admit critical pod", status.Message)
		require.NotNil(t, condition(status, v1.DisruptionTarget))
	})
}

// A preempted pod that ends in peace is Succeeded and has no reason, as upstream's specs of critical
// pods demand. Only the condition tells that the pod was preempted.
func TestTheExitsOfAPreemptedPodGiveItsPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second})
		big := host.Bind(nodetest.Pod("big", nodetest.Container("c"), cpu("700m")))
		time.Sleep(time.Second)
		host.Apply(nodetest.Pod("critical", nodetest.Container("crit"), cpu("500m")))
		time.Sleep(5 * time.Second)
		require.Equal(t, v1.PodRunning, server.Get(big.UID).Status.Phase)
		require.Nil(t, condition(server.Get(big.UID).Status, v1.DisruptionTarget), "told only with the end")
		time.Sleep(10 * time.Second)
		require.Equal(t, v1.PodRunning, host.Status("critical").Phase)
		status := server.Get(big.UID).Status
		require.Equal(t, v1.PodSucceeded, status.Phase)
		require.Empty(t, status.Reason)
		require.Empty(t, status.Message)
		require.NotNil(t, condition(status, v1.DisruptionTarget))
	})
}

func TestACriticalPodForWhichNoRoomCanBeMadeEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		host.Bind(nodetest.Pod("web", nodetest.Container("c"), cpu("700m")))
		host.Apply(nodetest.Pod("huge", nodetest.Container("crit"), cpu("1500m")))
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfcpu", reasonOf(host, "huge"))
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
	})
}

// A manifest is edited: the old pod's place is the new one's.
func TestAnEditedManifestFindsThePlaceOfTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: cpus("1")})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second})
		host.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("800m")))
		time.Sleep(time.Second)
		edited := nodetest.Pod("web", nodetest.Container("c"), cpu("900m"))
		edited.UID = "edited"
		host.Apply(edited)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
		require.Len(t, starts(host, "c"), 2)
		require.NoError(t, host.World.NoOverlap())
	})
}

// The edited pod is preempted before it starts: the old pod of its name is still ending.
func TestAPreemptedPodThatHasNotStartedIsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: cpus("1")})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 10 * time.Second})
		priority := func(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }
		host.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("800m"), priority(1)))
		time.Sleep(time.Second)
		edited := nodetest.Pod("web", nodetest.Container("c"), cpu("900m"), priority(1))
		edited.UID = "edited"
		host.Apply(edited)
		host.Apply(edited, nodetest.Pod("critical", nodetest.Container("crit"), cpu("500m"), priority(2)))
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("critical").Phase)
		status := host.Last("edited")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "Preempting", status.Reason)
		require.NotNil(t, status.StartTime)
		require.Len(t, starts(host, "c"), 1)
	})
}

// member is the Node of an API server that may be unreachable.
type member struct {
	sync.Mutex
	node *v1.Node
	hang bool
}

func (m *member) get(ctx context.Context) (*v1.Node, error) {
	m.Lock()
	host, hang := m.node, m.hang
	m.Unlock()
	if hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return host.DeepCopy(), nil
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
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.label("disk", "fast")
		web := nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast"))
		host.Apply(web)
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)

		slow := nodetest.Pod("slow", nodetest.Container("c"), selecting("disk", "slow"))
		host.Apply(web, slow)
		require.Equal(t, "NodeAffinity", reasonOf(host, "slow"))

		// After the removal of a label from the node its pods keep running.
		m.label("disk", "none")
		host.RestartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
	})
}

// An administrator has given the node an extended resource that no device plug-in serves. The node is
// read before a pod with the resource is admitted.
func TestResourcesOfAnAdministratorAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dongle = "example.com/dongle"
		m := &member{node: &v1.Node{}}
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		has := func(amount string) {
			m.Lock()
			defer m.Unlock()
			m.node.Status.Allocatable = v1.ResourceList{dongle: resource.MustParse(amount)}
		}
		asks := func(p *v1.Pod) {
			one := v1.ResourceList{dongle: resource.MustParse("1")}
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: one, Requests: one}
		}
		has("1")
		a, b := nodetest.Pod("a", nodetest.Container("c"), asks), nodetest.Pod("b", nodetest.Container("c"), asks)
		host.Apply(a)
		require.Equal(t, v1.PodRunning, host.Status("a").Phase)
		host.Apply(a, b)
		require.Equal(t, "OutOf"+dongle, reasonOf(host, "b"))
		time.Sleep(time.Second)
		has("2")
		c := nodetest.Pod("c", nodetest.Container("c"), asks)
		host.Apply(a, c)
		require.Equal(t, v1.PodRunning, host.Status("c").Phase)

		// Without an answer of the API server, the last known amount counts.
		time.Sleep(time.Second)
		m.away(true)
		d := nodetest.Pod("d", nodetest.Container("c"), asks)
		host.Apply(a, c, d)
		require.Empty(t, host.Status("d").Phase)
		time.Sleep(11 * time.Second)
		require.Equal(t, "OutOf"+dongle, reasonOf(host, "d"))
	})
}

// While the API server does not answer, other pods are admitted. The pod with the open question is
// judged by the last known node.
func TestAnAPIServerThatIsAwayHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{node: &v1.Node{}}
		m.label("disk", "fast")
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.away(true)
		slow := nodetest.Pod("slow", nodetest.Container("c"), selecting("disk", "slow"))
		host.Apply(slow, nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast")))
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
		require.Empty(t, host.Status("slow").Phase)
		time.Sleep(11 * time.Second)
		require.Equal(t, "NodeAffinity", reasonOf(host, "slow"))
	})
}

func TestTaintsAreForPodsOfAnAPIServer(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := nodetest.New(t, nodetest.Options{Source: source, Agent: func(o *node.Options) {
					o.NodeTaints = []v1.Taint{{Key: "out", Effect: v1.TaintEffectNoExecute}}
				}})
				host.Apply(nodetest.Pod("web", nodetest.Container("c")))
				time.Sleep(time.Second)
				require.Equal(t, source == podconfig.SourceAPI, reasonOf(host, "web") == "TaintToleration")
			})
		})
	}
}

// A pod that grows in place waits for room, and runs on meanwhile. A new agent knows its actual
// resources.
func TestAResizeWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: cpus("1")})
		web := host.Bind(nodetest.Pod("web", nodetest.Container("c"), cpu("400m")))
		other := host.Bind(nodetest.Pod("other", nodetest.Container("d"), cpu("400m")))
		time.Sleep(time.Second)
		resizeTo(host, server, web, "700m")
		pending := condition(host.Status("web"), v1.PodResizePending)
		require.NotNil(t, pending)
		require.Equal(t, v1.PodReasonDeferred, pending.Reason)
		require.Equal(t, "Node didn't have enough resource: cpu, requested: 700, used: 400, capacity: 1000", pending.Message)
		require.Equal(t, "400m", has(host, "web"))
		require.Equal(t, []string{"web"}, eventsOf(host, "ResizeDeferred"))
		require.Empty(t, eventsOf(host, "ResizeStarted"))

		host.RestartAgent()
		time.Sleep(time.Minute)
		require.NotNil(t, condition(host.Status("web"), v1.PodResizePending))
		require.Equal(t, "400m", has(host, "web"))

		resizeTo(host, server, web, "1100m")
		require.Equal(t, v1.PodReasonInfeasible, condition(host.Status("web"), v1.PodResizePending).Reason)
		resizeTo(host, server, web, "800m")
		require.Equal(t, v1.PodReasonDeferred, condition(host.Status("web"), v1.PodResizePending).Reason)

		host.Evict(other.UID)
		time.Sleep(time.Minute)
		require.Nil(t, condition(host.Status("web"), v1.PodResizePending))
		require.Equal(t, "800m", has(host, "web"))
		require.Len(t, starts(host, "c"), 1)
		require.Equal(t, []string{"web"}, eventsOf(host, "ResizeStarted"))
		require.Equal(t, []string{"web"}, eventsOf(host, "ResizeCompleted"))
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
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: cpus("2")})
		var pods []*v1.Pod
		for i, name := range []string{"a", "b", "c", "d"} {
			p := nodetest.Pod(name, nodetest.Container("c"), cpu("1"))
			p.CreationTimestamp.Time = time.Now().Add(-time.Duration(i) * time.Hour)
			pods = append(pods, p)
		}
		host.Apply(pods...)
		var run []string
		for _, p := range pods {
			if host.Status(p.Name).Phase == v1.PodRunning {
				run = append(run, p.Name)
			}
		}
		slices.Sort(run)
		require.Equal(t, []string{"c", "d"}, run)
	})
}

// A watcher of the node notifies the agent, which then admits pods without reading the node.
func TestTheAgentIsToldThatItsNodeHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{node: &v1.Node{}}
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) { o.Cluster.Node = m.get }})
		time.Sleep(time.Minute)
		m.label("disk", "fast")
		m.away(true)
		host.Agent.NodeChanged(m.node)
		host.Settle()
		host.Apply(nodetest.Pod("web", nodetest.Container("c"), selecting("disk", "fast")))
		require.Equal(t, v1.PodRunning, host.Status("web").Phase)
	})
}
