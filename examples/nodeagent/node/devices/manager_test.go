// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

const gpu = "example.com/gpu"

// plugin is a plug-in in memory.
type plugin struct {
	lists chan []ledger.Device

	mu       sync.Mutex
	prefers  []string
	fails    error // of Allocate
	noStart  error // of PreStart
	takes    time.Duration
	calls    []string
	starts   []string
	preferOf []ledger.Choice
}

func (p *plugin) Watch(ctx context.Context, report func([]ledger.Device)) error {
	for {
		select {
		case list, ok := <-p.lists:
			if !ok {
				return errors.New("the connection is lost")
			}
			report(list)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *plugin) Prefer(_ context.Context, c ledger.Choice) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.preferOf = append(p.preferOf, c)
	return p.prefers, nil
}

func (p *plugin) Allocate(ctx context.Context, ids []string) (*plugins.ContainerAllocateResponse, error) {
	p.mu.Lock()
	takes := p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, strings.Join(ids, ","))
	if p.fails != nil {
		return nil, p.fails
	}
	r := &plugins.ContainerAllocateResponse{
		Envs:        map[string]string{"GPUS": strings.Join(ids, ","), "OWN": "of the plug-in"},
		Annotations: map[string]string{"gpus": strings.Join(ids, ",")},
		Mounts:      []*plugins.Mount{{ContainerPath: "/lib/gpu", HostPath: "/usr/lib/gpu", ReadOnly: true}},
	}
	for _, id := range ids {
		r.Devices = append(r.Devices, &plugins.DeviceSpec{ContainerPath: "/dev/" + id, HostPath: "/dev/host-" + id, Permissions: "rw"})
		r.CdiDevices = append(r.CdiDevices, &plugins.CDIDevice{Name: gpu + "=" + id})
	}
	return r, nil
}

func (p *plugin) PreStart(_ context.Context, ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = append(p.starts, strings.Join(ids, ","))
	return p.noStart
}

func (p *plugin) set(f func(*plugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// read returns a copy of p.calls or p.starts.
func (p *plugin) read(list *[]string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(*list)
}

func (p *plugin) offered() []ledger.Choice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.preferOf)
}

func newPlugin() *plugin { return &plugin{lists: make(chan []ledger.Device)} }

// machine is a node whose agents have a Manager.
type machine struct {
	*nodetest.Node
	t       *testing.T
	manager *devices.Manager // of the present agent
	wait    time.Duration    // Options.Patience of the next agent

	mu    sync.Mutex
	specs map[string]runtime.ContainerSpec // the last of each pod
}

func newMachine(t *testing.T, source string) *machine {
	m, dir := &machine{t: t, specs: map[string]runtime.ContainerSpec{}}, t.TempDir()
	m.Node = nodetest.New(t, nodetest.Options{Source: source, Agent: func(o *node.Options) {
		var err error
		m.manager, err = devices.New(devices.Options{Dir: dir, Patience: m.wait, Logger: o.Logger})
		require.NoError(t, err)
		o.OnShutdown = node.KeepPods
		o.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
		o.Features = func(h *feature.Host) []feature.Feature {
			record := func(_ context.Context, pod *v1.Pod, _ *v1.Container, spec *runtime.ContainerSpec) error {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.specs[pod.Name] = *spec
				return nil
			}
			return []feature.Feature{m.manager.Feature(h), {Name: "record", Container: record}}
		}
	}})
	return m
}

// serve connects a plug-in with healthy devices. The result ends the connection.
func (m *machine) serve(p *plugin, ids string) (leave func()) {
	ctx, stop := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.manager.Follow(ctx, gpu, p)
	}()
	p.lists <- list(ids)
	m.Settle()
	return func() {
		close(p.lists)
		<-done
		stop()
		m.Settle()
	}
}

// list makes devices from a text such as "a !b".
func list(ids string) (all []ledger.Device) {
	for id := range strings.FieldsSeq(ids) {
		all = append(all, ledger.Device{ID: strings.TrimPrefix(id, "!"), Healthy: id[0] != '!'})
	}
	return all
}

func (m *machine) spec(pod string) runtime.ContainerSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.specs[pod]
}

func (m *machine) env(pod, name string) string {
	for _, e := range m.spec(pod).Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// held returns the devices of the pod's containers.
func (m *machine) held(pod *v1.Pod) string {
	var all []string
	for _, h := range m.manager.Of(pod.UID) {
		all = append(all, strings.Join(h.IDs(), ","))
	}
	return strings.Join(all, " ")
}

// podOf makes a pod with a container that has n devices.
func podOf(name string, n int64, opts ...func(*v1.Pod)) *v1.Pod {
	return nodetest.Pod(name, append([]func(*v1.Pod){nodetest.Container("c"), func(pod *v1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Resources.Limits = v1.ResourceList{gpu: *resource.NewQuantity(n, resource.DecimalSI)}
		c.Resources.Requests = c.Resources.Limits
		c.Env = []v1.EnvVar{{Name: "OWN", Value: "of the pod"}}
	}}, opts...)...)
}

// amounts prints capacity and allocatable of the node.
func (m *machine) amounts() string {
	capacity, allocatable := m.manager.Resources()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		c, a := capacity[name], allocatable[name]
		all = append(all, fmt.Sprintf("%s %s/%s", name, a.String(), c.String()))
	}
	return strings.Join(all, " ")
}

func TestAContainerGetsItsDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		defer m.serve(p, "a b c !d")()
		require.Equal(t, "example.com/gpu 3/4", m.amounts())
		p.set(func(p *plugin) { p.prefers = []string{"c", "b"} })
		first := podOf("first", 2)
		m.Apply(first)
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, m.Status("first").Phase)
		require.Equal(t, "b,c", m.held(first))
		spec := m.spec("first")
		require.Equal(t, "b,c", m.env("first", "GPUS"))
		require.Equal(t, "of the pod", m.env("first", "OWN"), "the pod's own variable")
		require.Equal(t, "b,c", spec.Annotations["gpus"])
		require.Equal(t, []runtime.Device{
			{HostPath: "/dev/host-b", ContainerPath: "/dev/b", Permissions: "rw"}, {HostPath: "/dev/host-c", ContainerPath: "/dev/c", Permissions: "rw"},
		}, spec.Devices)
		require.Equal(t, []string{gpu + "=b", gpu + "=c"}, spec.CDIDevices)
		require.Equal(t, "/usr/lib/gpu", spec.Mounts[0].HostPath)
		require.True(t, spec.Mounts[0].ReadOnly)
		require.Equal(t, []string{"b,c"}, p.read(&p.starts))
		require.Equal(t, []ledger.Choice{{Available: []string{"a", "b", "c"}, MustInclude: []string{}, Size: 2}}, p.offered())
		require.Equal(t, []v1.ResourceStatus{{Name: gpu, Resources: []v1.ResourceHealth{
			{ResourceID: "b", Health: v1.ResourceHealthStatusHealthy}, {ResourceID: "c", Health: v1.ResourceHealthStatusHealthy},
		}}}, m.Status("first").ContainerStatuses[0].AllocatedResourcesStatus)

		second := podOf("second", 2)
		m.Apply(first, second)
		time.Sleep(time.Second)
		status := m.Status("second")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "UnexpectedAdmissionError", status.Reason)
		require.Equal(t, "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1, which is unexpected", status.Message)

		// A device fails: the container keeps it.
		p.lists <- list("a !b c d")
		time.Sleep(time.Second)
		require.Equal(t, "example.com/gpu 3/4", m.amounts())
		require.Equal(t, v1.ResourceHealthStatusUnhealthy, m.Status("first").ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Health)
		require.Equal(t, v1.PodRunning, m.Status("first").Phase)

		// The devices are free when the pod has ended.
		third := podOf("third", 3)
		m.Apply(second, third)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, m.Status("third").Phase)
		require.Equal(t, "a,c,d", m.held(third))
	})
}

// A static pod with a new manifest waits for the devices of its former life.
func TestADeviceIsFreeAfterTheEndOfItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceFile), newPlugin()
		m.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		defer m.serve(p, "a")()
		old := podOf("web", 1, nodetest.GracePeriod(30))
		m.Apply(old)
		time.Sleep(time.Second)
		next := podOf("next", 1)
		m.Apply(next)
		time.Sleep(10 * time.Second)
		require.Equal(t, "a", m.held(old))
		require.Empty(t, m.held(next))
		require.NotEqual(t, v1.PodFailed, m.Status("next").Phase)
		time.Sleep(30 * time.Second)
		require.Equal(t, v1.PodRunning, m.Status("next").Phase)
		require.Equal(t, "a", m.held(next))
	})
}

// After a restart of the agent, containers keep their devices, also those that restart before the
// plug-in is back. Pods that come in the meantime wait for the plug-in.
func TestRestartOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		p.set(func(p *plugin) { p.prefers = []string{"b"} })
		m.serve(p, "a b")
		first, second := podOf("first", 1), podOf("second", 1)
		m.Apply(first)
		time.Sleep(time.Second)
		require.Equal(t, "b", m.held(first))
		m.StopAgent()
		close(p.lists)
		m.StartAgent()
		time.Sleep(time.Second)
		require.Equal(t, "b", m.held(first))
		require.Equal(t, "example.com/gpu 0/0", m.amounts())
		m.Apply(first, second)
		require.NoError(t, m.World.Kill(first.UID, "c", 1))
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, m.Status("first").Phase)
		require.EqualValues(t, 1, m.Status("first").ContainerStatuses[0].RestartCount)
		require.Equal(t, "b", m.env("first", "GPUS"))
		require.Empty(t, m.Status("second").Phase, "it waits")
		require.Empty(t, m.held(second))

		back := newPlugin()
		defer m.serve(back, "a b")()
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, m.Status("second").Phase)
		require.Equal(t, "a", m.held(second))
		require.Equal(t, "example.com/gpu 2/2", m.amounts())
		require.Equal(t, []string{"a"}, back.read(&back.calls), "the first pod's devices are not allocated again")
	})
}

// After a reboot, a pod waits for the plug-in of its devices, which may have to prepare them, and is
// refused like any other pod if the plug-in stays away. The kubelet refuses it at once.
func TestAPodWaitsForItsPlugInAfterAReboot(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		t.Run(fmt.Sprintf("back=%t", comesBack), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
				m.serve(p, "a b")
				first := podOf("first", 1)
				m.Apply(first)
				time.Sleep(time.Second)
				require.Equal(t, v1.PodRunning, m.Status("first").Phase)
				m.StopAgent()
				close(p.lists)
				m.World.Reboot()
				m.StartAgent()
				time.Sleep(time.Minute)
				require.NotEqual(t, v1.PodFailed, m.Status("first").Phase)
				require.Equal(t, 1, m.World.Total(fake.OpStartContainer), "it waits")
				if !comesBack {
					time.Sleep(devices.DefaultPatience)
					require.Equal(t, v1.PodFailed, m.Status("first").Phase)
					require.Equal(t, "UnexpectedAdmissionError", m.Status("first").Reason)
					require.Equal(t, "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices example.com/gpu, which is unexpected", m.Status("first").Message)
					return
				}
				defer m.serve(newPlugin(), "a b")()
				time.Sleep(15 * time.Second)
				require.Equal(t, v1.PodRunning, m.Status("first").Phase)
				require.Equal(t, "a", m.held(first))
				require.Equal(t, 2, m.World.Total(fake.OpStartContainer))
			})
		})
	}
}

func TestAFailedAllocationFailsThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		p.set(func(p *plugin) { p.fails = errors.New("no such device") })
		defer m.serve(p, "a")()
		m.Apply(podOf("first", 1))
		time.Sleep(time.Second)
		status := m.Status("first")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "UnexpectedAdmissionError", status.Reason)
		require.Equal(t, "Pod was rejected: Allocate failed due to no such device, which is unexpected", status.Message)
		require.Zero(t, m.World.Count(fake.Target{Op: fake.OpRunSandbox}), "no sandbox")
		p.set(func(p *plugin) { p.fails = nil })
		second := podOf("second", 1)
		m.Apply(second)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, m.Status("second").Phase, "the device is free")
	})
}

// A plug-in that hangs holds up its own pod only, for AllocateTimeout.
func TestAHangingPlugIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		p.set(func(p *plugin) { p.takes = time.Hour })
		defer m.serve(p, "a")()
		m.Apply(podOf("first", 1), nodetest.Pod("other", nodetest.Container("c")))
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, m.Status("other").Phase)
		time.Sleep(devices.AllocateTimeout)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("first").Reason)
	})
}

func TestAFailedPreStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		p.set(func(p *plugin) { p.noStart = errors.New("not reset") })
		defer m.serve(p, "a")()
		m.Apply(podOf("first", 1))
		time.Sleep(time.Second)
		waiting := m.Status("first").ContainerStatuses[0].State.Waiting
		require.NotNil(t, waiting)
		require.Equal(t, `spec.containers[0].resources.limits["example.com/gpu"]: device plugin PreStartContainer rpc failed with err: not reset`, waiting.Message)
		p.set(func(p *plugin) { p.noStart = nil })
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, m.Status("first").Phase)
		require.Equal(t, []string{"a"}, p.read(&p.calls), "allocated once")
	})
}

// A plug-in that registers again takes the place of its former connection, whose end has no effect.
func TestAPlugInRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, old, next := newMachine(t, podconfig.SourceAPI), newPlugin(), newPlugin()
		m.serve(old, "a")
		defer m.serve(next, "a b")()
		time.Sleep(time.Minute)
		require.Equal(t, "example.com/gpu 2/2", m.amounts())
		m.Apply(podOf("first", 2))
		time.Sleep(time.Second)
		require.Empty(t, old.read(&old.calls))
		require.Equal(t, []string{"a,b"}, next.read(&next.calls))
	})
}

// A plug-in that fails before its first list makes its resource known, as on the kubelet: the Node shows
// that the plug-in is there.
func TestAPlugInThatListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, podconfig.SourceAPI)
		crash := func() {
			p := newPlugin()
			close(p.lists)
			require.ErrorContains(t, m.manager.Follow(t.Context(), gpu, p), "the connection is lost")
		}
		require.Empty(t, m.amounts())
		crash()
		require.Equal(t, "example.com/gpu 0/0", m.amounts())
		m.Apply(podOf("first", 1))
		time.Sleep(time.Minute)
		require.Empty(t, m.Status("first").Phase, "it waits")
		time.Sleep(devices.DefaultPatience)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("first").Reason)
		require.Equal(t, "example.com/gpu 0/0", m.amounts())
		crash()
		m.Apply(podOf("second", 1))
		time.Sleep(time.Second)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("second").Reason, "it does not wait for a plug-in that has failed for so long")
	})
}

// Extended resources without a plug-in are refused by name for static pods, as without this feature.
func TestResourcesWithoutAPlugIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, podconfig.SourceFile)
		m.Apply(podOf("first", 1))
		time.Sleep(time.Second)
		require.Equal(t, "OutOfexample.com/gpu", m.Status("first").Reason)
	})
}

func TestOptions(t *testing.T) {
	_, err := devices.New(devices.Options{Dir: "plugins"})
	require.ErrorContains(t, err, "Options.Dir")
	_, err = devices.New(devices.Options{Dir: "/plugins", Patience: -1})
	require.ErrorContains(t, err, "Options.Patience")
}

func Example() {
	manager, err := devices.New(devices.Options{Dir: "/var/lib/kubelet/device-plugins"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// node.Options.Features calls manager.Feature, and a deviceplugin.Server calls manager.Follow.
	capacity, _ := manager.Resources()
	fmt.Println(len(capacity))
	// Output: 0
}
