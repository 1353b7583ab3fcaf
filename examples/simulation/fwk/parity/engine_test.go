// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	framework "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	engineframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// reference asks kube-scheduler for the decisions, with the ends of pods in between. The engine runs in
// a bubble: synctest.Wait returns when the engine has seen all changes.
func reference(t *testing.T, nodes []*v1.Node, of []weighted, steps []step) []string {
	// The first call of signal.Notify starts a goroutine that never ends. It must be outside.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	defer signal.Stop(signals)
	out, began := make([]string, len(steps)), time.Now()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		engine := newEngine(ctx, t, nodes, of)
		for i, s := range steps {
			if s.ends {
				engine.remove(s.pod)
			} else {
				out[i] = engine.place(s.pod)
			}
		}
		cancel()
		engine.sched.SchedulingQueue.Close()
		engine.events.Shutdown()
	})
	t.Logf("kube-scheduler: %v", time.Since(began).Round(time.Millisecond))
	return out
}

// engine is kube-scheduler on an API server in memory.
type engine struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	sched  *scheduler.Scheduler
	events events.EventBroadcaster
	node   string // of the last binding
}

func newEngine(ctx context.Context, t *testing.T, nodes []*v1.Node, of []weighted) *engine {
	e := &engine{t: t, ctx: ctx, client: fake.NewClientset(), events: events.NewBroadcaster(noSink{})}
	e.client.PrependReactor("create", "pods", e.bind)
	factory := scheduler.NewInformerFactory(e.client, 0, nil)
	var err error
	e.sched, err = scheduler.New(ctx, e.client, factory, nil, profile.NewRecorderFactory(e.events),
		scheduler.WithProfiles(profileOf(of)), scheduler.WithParallelism(1), scheduler.WithPercentageOfNodesToScore(new(int32(100))))
	require.NoError(t, err)
	e.sched.FailureHandler = e.refuse
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	e.sched.SchedulingQueue.Run(klog.Background())
	_, err = e.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, node := range nodes { // in this order: a list of the client set has no order
		_, err := e.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
	}
	return e
}

// profileOf returns the profile with exactly these plug-ins.
func profileOf(of []weighted) config.KubeSchedulerProfile {
	p := config.KubeSchedulerProfile{SchedulerName: v1.DefaultSchedulerName, Plugins: &config.Plugins{}, PluginConfig: defaults.PluginConfigsV1}
	p.Plugins.QueueSort.Enabled = []config.Plugin{{Name: "PrioritySort"}}
	p.Plugins.Bind.Enabled = []config.Plugin{{Name: "DefaultBinder"}}
	for _, w := range of {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, config.Plugin{Name: w.name, Weight: w.weight})
	}
	return p
}

// bind answers a binding: the pod gets its node.
func (e *engine) bind(a clienttesting.Action) (bool, apiruntime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	pods := v1.SchemeGroupVersion.WithResource("pods")
	object, err := e.client.Tracker().Get(pods, binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := object.(*v1.Pod).DeepCopy()
	pod.Spec.NodeName, e.node = binding.Target.Name, binding.Target.Name
	return true, binding, e.client.Tracker().Update(pods, pod, pod.Namespace)
}

// refuse is the failure handler: the pod is not tried again.
func (e *engine) refuse(_ context.Context, _ engineframework.Framework, pod *engineframework.QueuedPodInfo, status *framework.Status, _ *framework.NominatingInfo, _ time.Time) {
	if !status.IsRejected() {
		e.t.Errorf("%s: %v", pod.Pod.Name, status)
	}
	e.sched.SchedulingQueue.Done(pod.Pod.UID)
}

// place creates a pod, and returns its node. A pod that does not fit is deleted.
func (e *engine) place(pod *v1.Pod) string {
	pod = pod.DeepCopy()
	pod.UID = types.UID(pod.Name)
	pod.Spec.SchedulerName = v1.DefaultSchedulerName
	_, err := e.client.CoreV1().Pods(pod.Namespace).Create(e.ctx, pod, metav1.CreateOptions{})
	require.NoError(e.t, err)
	synctest.Wait()
	e.node = ""
	e.sched.ScheduleOne(e.ctx)
	synctest.Wait()
	if e.node == "" {
		e.remove(pod)
	}
	return e.node
}

// remove deletes a pod.
func (e *engine) remove(pod *v1.Pod) {
	require.NoError(e.t, e.client.CoreV1().Pods(pod.Namespace).Delete(e.ctx, pod.Name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// noSink drops events.
type noSink struct{ events.EventSink }
