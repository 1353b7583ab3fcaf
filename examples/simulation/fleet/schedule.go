// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
)

// scheduler binds pods of the default scheduler to the nodes of the fleet, for an API server without
// a scheduler. It decides with the plug-ins of package sim/kube, without preemption.
type scheduler struct {
	pods corev1.PodsGetter
	log  *zap.Logger

	// The goroutine of run owns the fields below.
	snapshot *sim.Snapshot
	decider  *sim.Scheduler
	placed   map[types.UID]*sim.Pod
	waiting  []*v1.Pod // in the order of their arrival
	told     map[types.UID]string

	mu      sync.Mutex
	changes []podChange
	more    signal.Signal
}

// podChange is the newest object of a pod, or nil for a deleted pod.
type podChange struct {
	uid types.UID
	pod *v1.Pod
}

// bindAgain is the pause after a failed request.
const bindAgain = time.Second

func newScheduler(pods corev1.PodsGetter, nodes []*v1.Node, log *zap.Logger) (*scheduler, error) {
	s := &scheduler{pods: pods, log: log, placed: map[types.UID]*sim.Pod{}, told: map[types.UID]string{}, more: signal.New()}
	var err error
	if s.snapshot, err = sim.NewSnapshot(nodes); err != nil {
		return nil, err
	}
	profile := kube.Profile()
	profile.PostFilter = nil
	s.decider, err = sim.NewScheduler(s.snapshot, profile, rand.New(rand.NewPCG(1, 1)))
	return s, err
}

// changed passes on the newest object of a pod, nil for a deleted pod. It does not block.
func (s *scheduler) changed(uid types.UID, pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, podChange{uid, pod})
	s.more.Notify()
}

// run binds pods until ctx ends.
func (s *scheduler) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.more:
		case <-again.C:
		}
		s.mu.Lock()
		changes := s.changes
		s.changes = nil
		s.mu.Unlock()
		for _, c := range changes {
			s.follow(c)
		}
		if err := s.bindAll(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot bind pods; trying on", zap.Error(err))
			again.Reset(bindAgain)
		}
	}
}

// follow notes a change of a pod.
func (s *scheduler) follow(c podChange) {
	s.waiting = slices.DeleteFunc(s.waiting, func(p *v1.Pod) bool { return p.UID == c.uid })
	known := s.placed[c.uid]
	switch {
	case c.pod == nil || podfacts.IsTerminal(c.pod.Status.Phase):
		if known != nil {
			s.snapshot.Forget(known)
			delete(s.placed, c.uid)
		}
		delete(s.told, c.uid)
	case c.pod.Spec.NodeName != "" && known == nil:
		if p, n := s.podOf(c.pod), s.snapshot.Node(c.pod.Spec.NodeName); p != nil && n != nil {
			s.place(p, n, c.uid)
		}
	case c.pod.Spec.NodeName == "" && known == nil && c.pod.Spec.SchedulerName == v1.DefaultSchedulerName &&
		c.pod.DeletionTimestamp == nil && len(c.pod.Spec.SchedulingGates) == 0:
		s.waiting = append(s.waiting, c.pod)
	}
}

func (s *scheduler) place(p *sim.Pod, n *sim.Node, uid types.UID) {
	s.snapshot.Assume(p, n, nil)
	s.placed[uid] = p
}

// podOf returns the pod as package sim knows pods, or nil.
func (s *scheduler) podOf(pod *v1.Pod) *sim.Pod {
	shape, err := sim.NewShape(pod, sim.GPURequest{})
	if err != nil {
		return nil
	}
	return &sim.Pod{Name: pod.Name, Shape: shape}
}

// bindAll binds the waiting pods that fit, and returns the first error of a request.
func (s *scheduler) bindAll(ctx context.Context) (first error) {
	for _, pod := range slices.Clone(s.waiting) {
		p := s.podOf(pod)
		found := s.decider.Decide(p, 0)
		var err error
		if found.Node == nil {
			err = s.refuse(ctx, pod, s.decider.Explain(p, found))
		} else if err = s.bind(ctx, pod, found.Node.Name); err == nil {
			s.place(p, found.Node, pod.UID)
			s.waiting = slices.DeleteFunc(s.waiting, func(other *v1.Pod) bool { return other == pod })
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil // deleted, or bound by another scheduler: a change follows
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s *scheduler) bind(ctx context.Context, pod *v1.Pod, node string) error {
	return s.pods.Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// refuse writes the condition of a pod that does not fit.
func (s *scheduler) refuse(ctx context.Context, pod *v1.Pod, message string) error {
	if s.told[pod.UID] == message {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err == nil {
		_, err = s.pods.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		s.told[pod.UID] = message
	}
	return err
}
