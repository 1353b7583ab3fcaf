// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// epoch is the beginning of the virtual time.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// podOf returns the API object of a pod. Its parts are shared with the template, which is not written.
// A pod of a hint has a Shape alone.
func podOf(p *sim.Pod, node string) *v1.Pod {
	template := p.Shape.Template
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = cmp.Or(pod.Namespace, metav1.NamespaceDefault), ""
	pod.Status.Phase = v1.PodPending
	if node != "" {
		pod.Spec.NodeName = node
	}
	if p.UID == 0 {
		return pod
	}
	pod.Name, pod.UID = p.Name, uidOf(p)
	pod.CreationTimestamp = metav1.NewTime(epoch.Add(p.Submitted))
	if n := p.Nominated(); n != nil {
		pod.Status.NominatedNodeName = n.Name
	}
	if p.Bound != sim.Never {
		start := metav1.NewTime(epoch.Add(p.Bound))
		pod.Status.StartTime = &start
	}
	if p.Phase == sim.Running {
		pod.Status.Phase = v1.PodRunning
	}
	if p.Evicting() {
		now := metav1.NewTime(epoch.Add(p.Bound))
		pod.DeletionTimestamp = &now
	}
	return pod
}

func uidOf(p *sim.Pod) types.UID { return types.UID(fmt.Sprint("sim-", p.UID)) }

// podInfo implements framework.PodInfo.
type podInfo struct {
	pod                      *v1.Pod
	of                       *sim.Pod
	needs                    framework.PodResource
	required, requiredAnti   []framework.AffinityTerm
	preferred, preferredAnti []framework.WeightedAffinityTerm
	phase                    sim.Phase // when pod was made
	evicting                 bool
}

func newPodInfo(p *sim.Pod, node string) *podInfo {
	info := &podInfo{pod: podOf(p, node), of: p, phase: p.Phase, evicting: p.Evicting()}
	non0 := &p.Shape.NonZero
	info.needs = framework.PodResource{Resource: resourcesOf(&p.Shape.Requests), Non0CPU: non0.CPU, Non0Mem: non0.Memory}
	affinity := info.pod.Spec.Affinity
	if affinity == nil {
		return info
	}
	// A selector that does not parse selects nothing: an API server refuses such a pod.
	info.required, _ = framework.GetAffinityTerms(info.pod, framework.GetPodAffinityTerms(affinity))
	info.requiredAnti, _ = framework.GetAffinityTerms(info.pod, framework.GetPodAntiAffinityTerms(affinity))
	if affinity.PodAffinity != nil {
		info.preferred, _ = framework.GetWeightedAffinityTerms(info.pod, affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAntiAffinity != nil {
		info.preferredAnti, _ = framework.GetWeightedAffinityTerms(info.pod, affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return info
}

func (p *podInfo) GetPod() *v1.Pod                                             { return p.pod }
func (p *podInfo) GetRequiredAffinityTerms() []framework.AffinityTerm          { return p.required }
func (p *podInfo) GetRequiredAntiAffinityTerms() []framework.AffinityTerm      { return p.requiredAnti }
func (p *podInfo) GetPreferredAffinityTerms() []framework.WeightedAffinityTerm { return p.preferred }
func (p *podInfo) GetPreferredAntiAffinityTerms() []framework.WeightedAffinityTerm {
	return p.preferredAnti
}
func (p *podInfo) CalculateResource() framework.PodResource { return p.needs }

// hasAffinity reports whether a pod has terms of any kind.
func hasAffinity(p framework.PodInfo) bool {
	return len(p.GetRequiredAffinityTerms())+len(p.GetRequiredAntiAffinityTerms())+
		len(p.GetPreferredAffinityTerms())+len(p.GetPreferredAntiAffinityTerms()) > 0
}

// isAnti reports whether a pod has required terms of anti-affinity.
func isAnti(p framework.PodInfo) bool { return len(p.GetRequiredAntiAffinityTerms()) > 0 }

// isWideAnti reports whether some of these terms look beyond the node.
func isWideAnti(p framework.PodInfo) bool {
	return slices.ContainsFunc(p.GetRequiredAntiAffinityTerms(), func(t framework.AffinityTerm) bool {
		return t.TopologyKey != v1.LabelHostname
	})
}

// queued implements framework.QueuedEntityInfo.
type queued struct{ pod *sim.Pod }

func (q *queued) Type() framework.EntityKeyType   { return framework.PodKeyType }
func (q *queued) GetPriority() int32              { return q.pod.Shape.Priority }
func (q *queued) GetTimestamp() time.Time         { return epoch.Add(q.pod.Queueing().At) }
func (q *queued) GetAttempts() int                { return q.pod.Queueing().Attempts }
func (q *queued) GetBackoffExpiration() time.Time { return epoch.Add(q.pod.Queueing().Expiry) }
func (q *queued) GetUnschedulableCount() int      { return q.pod.Queueing().Failures }
func (q *queued) GetConsecutiveErrorsCount() int  { return q.pod.Queueing().Errors }
func (q *queued) GetInitialAttemptTimestamp() *time.Time {
	at := epoch.Add(q.pod.Submitted)
	return &at
}
func (q *queued) GetUnschedulablePlugins() sets.Set[string]       { return sets.New[string]() }
func (q *queued) GetPendingPlugins() sets.Set[string]             { return sets.New[string]() }
func (q *queued) GetGatingPlugin() string                         { return "" }
func (q *queued) GetGatingPluginEvents() []framework.ClusterEvent { return nil }
