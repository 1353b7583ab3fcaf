// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// handle implements framework.Handle.
type handle struct{ s *Scheduler }

var _ framework.Handle = (*handle)(nil)

func (h *handle) SnapshotSharedLister() framework.SharedLister { return &sharedLister{v: &h.s.view} }
func (h *handle) MutableSnapshotSharedLister() framework.MutableSnapshotSharedLister {
	return &mutableLister{sharedLister{v: &h.s.view}, h.s}
}
func (h *handle) ProfileName() string                                    { return h.s.name }
func (h *handle) ClientSet() kubernetes.Interface                        { return h.s.client }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.s.factory }
func (h *handle) EventRecorder() events.EventRecorderLogger              { return &recorder{h.s} }
func (h *handle) Parallelizer() framework.Parallelizer                   { return inOrder{} }
func (h *handle) SharedDRAManager() framework.SharedDRAManager           { return noClaims{} }
func (h *handle) SharedCSIManager() framework.CSIManager                 { return noCSI{} }
func (h *handle) PodGroupManager() framework.PodGroupManager             { return noGroups{} }

// These are nil in kube-scheduler too, unless configured.
func (h *handle) KubeConfig() *rest.Config                                { return nil }
func (h *handle) Extenders() []framework.Extender                         { return nil }
func (h *handle) APIDispatcher() framework.APIDispatcher                  { return nil }
func (h *handle) APICacher() framework.APICacher                          { return nil }
func (h *handle) SignPod(context.Context, *v1.Pod) framework.PodSignature { return nil }
func (h *handle) GetPodInPreBind(types.UID) framework.PodInPreBind        { return nil }
func (h *handle) RemovePodInPreBind(types.UID)                            {}
func (h *handle) AddPodInPreBind(types.UID, context.CancelCauseFunc) {
	_ = h.s.refuse("Handle.AddPodInPreBind")
}

// Nominations are the result of PostFilter.
func (h *handle) AddNominatedPod(klog.Logger, framework.PodInfo, *framework.NominatingInfo) {
	_ = h.s.refuse("Handle.AddNominatedPod")
}
func (h *handle) DeleteNominatedPodIfExists(*v1.Pod) {
	_ = h.s.refuse("Handle.DeleteNominatedPodIfExists")
}
func (h *handle) UpdateNominatedPod(klog.Logger, *v1.Pod, framework.PodInfo) {
	_ = h.s.refuse("Handle.UpdateNominatedPod")
}
func (h *handle) Activate(klog.Logger, map[string]*v1.Pod) { _ = h.s.refuse("Handle.Activate") }

// NominatedPodsForNode implements framework.Handle.
func (h *handle) NominatedPodsForNode(name string) (pods []framework.PodInfo) {
	if h.s.current == nil {
		return nil
	}
	if n := h.s.current.Snapshot.Node(name); n != nil {
		for _, p := range h.s.current.Nominated(n) {
			pods = append(pods, newPodInfo(p, ""))
		}
	}
	return pods
}

// inOrder implements framework.Parallelizer.
type inOrder struct{}

func (inOrder) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	for i := range pieces {
		if ctx.Err() != nil {
			return
		}
		do(i)
	}
}

// recorder implements events.EventRecorderLogger.
type recorder struct{ s *Scheduler }

func (r *recorder) Eventf(regarding, _ apiruntime.Object, kind, reason, _, note string, args ...any) {
	if r.s.event != nil {
		r.s.event(regarding, kind, reason, fmt.Sprintf(note, args...))
	}
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
