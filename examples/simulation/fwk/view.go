// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// view shows the nodes of a sim.Snapshot as framework.NodeInfo. A change of a node replaces the
// NodeInfo of this node alone.
type view struct {
	snapshot *sim.Snapshot
	infos    []framework.NodeInfo // by index
	gens     []uint64
	placed   map[*sim.Pod]*podInfo
	pods     cache.Indexer // of the informers
	nodes    cache.Indexer
}

func (v *view) init() { v.placed = map[*sim.Pod]*podInfo{} }

// refresh brings all nodes up to date, and returns them in the order of scheduling.
func (v *view) refresh(snapshot *sim.Snapshot) []framework.NodeInfo {
	nodes := snapshot.Nodes()
	if v.snapshot != snapshot {
		v.snapshot = snapshot
		v.infos, v.gens = make([]framework.NodeInfo, len(nodes)), make([]uint64, len(nodes))
	}
	for _, n := range nodes {
		v.update(n)
	}
	return v.infos
}

// node returns a node that is up to date.
func (v *view) node(snapshot *sim.Snapshot, n *sim.Node) framework.NodeInfo {
	if v.snapshot != snapshot {
		v.refresh(snapshot)
	}
	v.update(n)
	return v.infos[n.Index()]
}

func (v *view) update(n *sim.Node) {
	i := n.Index()
	if v.infos[i] != nil && v.gens[i] == n.Generation() {
		return
	}
	left := map[*sim.Pod]bool{}
	if v.infos[i] != nil {
		for _, p := range v.infos[i].GetPods() {
			left[p.(*podInfo).of] = true
		}
	}
	pods := make([]framework.PodInfo, 0, len(n.Pods))
	for _, p := range n.Pods {
		info := v.placed[p]
		if info == nil || info.pod.Spec.NodeName != n.Name || info.phase != p.Phase || info.evicting != p.Evicting() {
			info = newPodInfo(p, n.Name)
			v.placed[p] = info
			_ = v.pods.Add(info.pod) // the key of a pod has no error
		}
		delete(left, p)
		pods = append(pods, info)
	}
	for p := range left {
		if p.Node == nil {
			_ = v.pods.Delete(v.placed[p].pod)
			delete(v.placed, p)
		}
	}
	info := newNodeInfo(n, v.snapshot, pods)
	v.infos[i], v.gens[i] = info, n.Generation()
	_ = v.nodes.Add(info.node)
}

// sharedLister implements framework.SharedLister and framework.NodeInfoLister.
type sharedLister struct {
	noGroups
	v *view
}

func (l *sharedLister) NodeInfos() framework.NodeInfoLister       { return l }
func (l *sharedLister) StorageInfos() framework.StorageInfoLister { return l }

// List implements framework.NodeInfoLister.
func (l *sharedLister) List() ([]framework.NodeInfo, error) { return l.v.infos, nil }

// Get implements framework.NodeInfoLister.
func (l *sharedLister) Get(name string) (framework.NodeInfo, error) {
	if l.v.snapshot != nil {
		if n := l.v.snapshot.Node(name); n != nil {
			return l.v.infos[n.Index()], nil
		}
	}
	return nil, fmt.Errorf("fwk: no node %q", name)
}

func (l *sharedLister) HavePodsWithAffinityList() ([]framework.NodeInfo, error) {
	return l.with(hasAffinity)
}

func (l *sharedLister) HavePodsWithRequiredAntiAffinityList() ([]framework.NodeInfo, error) {
	return l.with(isAnti)
}

func (l *sharedLister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]framework.NodeInfo, error) {
	return l.with(isWideAnti)
}

// with returns the nodes with such a pod.
func (l *sharedLister) with(has func(framework.PodInfo) bool) (nodes []framework.NodeInfo, err error) {
	if l.v.snapshot == nil || !l.v.snapshot.HasTerms() {
		return nil, nil
	}
	for i, n := range l.v.snapshot.Nodes() {
		if n.HasTerms() && len(l.v.infos[i].(*nodeInfo).only(has)) > 0 {
			nodes = append(nodes, l.v.infos[i])
		}
	}
	return nodes, nil
}

// IsPVCUsedByPods implements framework.StorageInfoLister.
func (l *sharedLister) IsPVCUsedByPods(key string) bool {
	for _, info := range l.v.infos {
		if info.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// mutableLister implements framework.MutableSnapshotSharedLister without mutations.
type mutableLister struct {
	sharedLister
	s *Scheduler
}

func (l *mutableLister) StartMutations() error {
	return l.s.refuse("MutableSnapshotSharedLister.StartMutations")
}
func (l *mutableLister) EndMutations() error {
	return l.s.refuse("MutableSnapshotSharedLister.EndMutations")
}

// AddPod implements framework.MutableSnapshotSharedLister.
func (l *mutableLister) AddPod(framework.PodInfo, string) error {
	return l.s.refuse("MutableSnapshotSharedLister.AddPod")
}

// RemovePod implements framework.MutableSnapshotSharedLister.
func (l *mutableLister) RemovePod(klog.Logger, *v1.Pod, string) error {
	return l.s.refuse("MutableSnapshotSharedLister.RemovePod")
}
