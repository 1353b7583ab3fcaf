// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
	"github.com/keelson-dev/keelson/examples/simulation/fleet"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// APIOptions configure the backend on a real API server.
type APIOptions struct {
	Options
	// Config is an API server for simulations, without nodes of the names of Options.Nodes. Required.
	Config *rest.Config
	// Namespace is the existing namespace of all pods, without pods of the names pod-1, pod-2 and so on.
	// Defaults to default.
	Namespace string
}

// LabelRun is the label of the pods of a run on a real API server. After a run that was killed, delete
// the pods with this label, and the nodes of the run.
const LabelRun = "simulation.keelson.dev/run"

// NewAPI is New for agents on a real API server, such as kube-apiserver, in real time: a second of the
// simulation takes a second. It needs no bubble. An end of ctx ends the run with an error. The returned
// stop deletes the pods and the nodes of the run.
func NewAPI(ctx context.Context, o APIOptions) (backend func(sim.BackendInput) (sim.Backend, error), stop func() error) {
	started, finish := false, func() error { return nil }
	backend = func(b sim.BackendInput) (sim.Backend, error) {
		if started {
			return nil, errors.New("agents: the backend is for a single run")
		}
		started = true
		a := newAgents("api", b)
		a.namespace = cmp.Or(o.Namespace, v1.NamespaceDefault)
		s := &apiServer{ctx: ctx, agents: a, known: map[types.UID]types.NamespacedName{}}
		f, err := fleet.New(fleet.Options{
			Config: o.Config, Root: o.Root, Objects: o.Nodes, Changed: s.changed,
			Cluster: func(c *cluster.Options) {
				agent := c.Agent
				c.Seed, c.ImageSizes, c.Bandwidth, c.Latency, c.Behave = o.Seed, b.Model.ImageSizes, b.Model.Bandwidth, a.latency, a.behave
				c.Agent = func(o *node.Options) {
					agent(o)
					o.Admit = nil // scripts come from the model, and not from annotations
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("agents: %w", err)
		}
		a.server, a.cluster = s, f.Cluster()
		if err := s.connect(o.Config, o.Nodes); err != nil {
			return nil, fmt.Errorf("agents: %w", err)
		}
		end := a.run(ctx, f.Run)
		finish = func() error { return errors.Join(end(), s.clear(), f.Delete(context.WithoutCancel(ctx))) }
		select {
		case <-f.Registered():
		case <-a.changed: // failed
			_, _, err := a.take(sim.Never)
			return nil, fmt.Errorf("agents: register the nodes: %w", err)
		}
		a.born = time.Now()
		return a, nil
	}
	return backend, func() error { return finish() }
}

// RunAPI is Run for agents on a real API server, in real time. See NewAPI. o.Root is replaced by a
// temporary folder, and o.Nodes and o.Seed by those of s.
func RunAPI(ctx context.Context, o APIOptions, s sim.Options) (report *sim.Report, err error) {
	o.Nodes, o.Seed = s.Nodes, s.Seed
	if o.Root, err = os.MkdirTemp("", "agents"); err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Root)) }()
	backend, stop := NewAPI(ctx, o)
	s.Backend = backend
	simulation, err := sim.New(s)
	if err == nil {
		report, err = simulation.Run(ctx)
	}
	return report, errors.Join(err, stop())
}

// apiServer is the server of agents on a real API server.
type apiServer struct {
	ctx      context.Context
	agents   *Agents
	pods     corev1.PodInterface // of the namespace
	removals sync.WaitGroup
	known    map[types.UID]types.NamespacedName // of all pods on the nodes; for changed alone
}

// connect makes the client, and refuses nodes that exist, whose pods would end with the run, and nodes
// that the API server refuses.
func (s *apiServer) connect(config *rest.Config, nodes []*v1.Node) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	s.pods = client.Pods(s.agents.namespace)
	for _, n := range nodes {
		trial := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}, Spec: v1.NodeSpec{Taints: n.Spec.Taints}, Status: n.Status}
		_, err := client.Nodes().Create(s.ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("node %s exists on the API server; if it is of a run that was killed, delete it", n.Name)
		case err != nil:
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// create implements server.
func (s *apiServer) create(pod *v1.Pod) error {
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: map[string]string{LabelRun: ""}, Annotations: pod.Annotations}
	// The API server computes the priority from classes that it has.
	pod.Spec.Priority, pod.Spec.PriorityClassName = nil, ""
	pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = "", new(bool)
	_, err := s.pods.Create(s.ctx, pod, metav1.CreateOptions{})
	return err
}

// end implements server.
func (s *apiServer) end(n names, graceSeconds int64) error {
	err := s.pods.Delete(s.ctx, n.Name, metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds})
	if apierrors.IsNotFound(err) {
		return nil // changed reports the end
	}
	return err
}

// remove implements server. The simulation does not wait for the request.
func (s *apiServer) remove(n names) {
	s.removals.Go(func() {
		err := s.pods.Delete(s.ctx, n.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			s.agents.fail(fmt.Errorf("agents: delete pod %s, which has ended: %w", n.NamespacedName, err))
		}
	})
}

// changed is fleet.Options.Changed. The calls are never concurrent.
func (s *apiServer) changed(uid types.UID, pod *v1.Pod) {
	if pod != nil {
		s.known[uid] = nameOf(pod)
		s.agents.observe(pod)
		return
	}
	s.agents.vanished(s.known[uid])
	delete(s.known, uid)
}

// clear deletes the pods of the run.
func (s *apiServer) clear() error {
	s.removals.Wait()
	return s.pods.DeleteCollection(context.WithoutCancel(s.ctx), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: LabelRun})
}
