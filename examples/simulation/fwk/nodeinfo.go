// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// nodeInfo implements framework.NodeInfo. The view replaces it when the node has changed.
type nodeInfo struct {
	node            *v1.Node
	pods            []framework.PodInfo
	requested, non0 *resources
	allocatable     *resources
	ports           framework.HostPortInfo
	claims          map[string]int
	images          map[string]*framework.ImageStateSummary
	generation      int64
}

// newNodeInfo reads a node and its pods.
func newNodeInfo(n *sim.Node, snapshot *sim.Snapshot, pods []framework.PodInfo) *nodeInfo {
	info := &nodeInfo{
		node: nodeObject(n), generation: int64(n.Generation()), allocatable: resourcesOf(&n.Allocatable),
		requested: &resources{scalars: map[v1.ResourceName]int64{}}, non0: &resources{scalars: map[v1.ResourceName]int64{}},
		ports: framework.HostPortInfo{}, claims: map[string]int{}, images: make(map[string]*framework.ImageStateSummary, len(n.Images)),
	}
	info.allocatable.pods = n.MaxPods
	for name, size := range n.Images {
		info.images[name] = &framework.ImageStateSummary{Size: size, NumNodes: snapshot.NodesWith(name), Nodes: sets.New[string]()}
	}
	for _, pod := range pods {
		info.AddPodInfo(pod)
	}
	info.generation = int64(n.Generation())
	return info
}

// nodeObject returns the API object with the present taints and conditions.
func nodeObject(n *sim.Node) *v1.Node {
	node := &v1.Node{ObjectMeta: n.Object.ObjectMeta, Spec: n.Object.Spec, Status: n.Object.Status}
	node.Spec.Taints, node.Spec.Unschedulable = n.Taints, n.Unschedulable
	if !n.Ready {
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
	}
	return node
}

func (n *nodeInfo) Node() *v1.Node                                          { return n.node }
func (n *nodeInfo) GetPods() []framework.PodInfo                            { return n.pods }
func (n *nodeInfo) GetUsedPorts() framework.HostPortInfo                    { return n.ports }
func (n *nodeInfo) GetRequested() framework.Resource                        { return n.requested }
func (n *nodeInfo) GetNonZeroRequested() framework.Resource                 { return n.non0 }
func (n *nodeInfo) GetAllocatable() framework.Resource                      { return n.allocatable }
func (n *nodeInfo) GetImageStates() map[string]*framework.ImageStateSummary { return n.images }
func (n *nodeInfo) GetPVCRefCounts() map[string]int                         { return n.claims }
func (n *nodeInfo) GetGeneration() int64                                    { return n.generation }
func (n *nodeInfo) GetNodeDeclaredFeatures() (none ndf.FeatureSet)          { return none }
func (n *nodeInfo) String() string                                          { return n.node.Name }
func (n *nodeInfo) SetNode(node *v1.Node)                                   { n.node = node }

func (n *nodeInfo) GetPodsWithAffinity() []framework.PodInfo             { return n.only(hasAffinity) }
func (n *nodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo { return n.only(isAnti) }
func (n *nodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []framework.PodInfo {
	return n.only(isWideAnti)
}

func (n *nodeInfo) only(has func(framework.PodInfo) bool) (pods []framework.PodInfo) {
	for _, p := range n.pods {
		if has(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// Snapshot returns a copy whose pods may be changed.
func (n *nodeInfo) Snapshot() framework.NodeInfo {
	out := *n
	out.pods, out.claims = slices.Clone(n.pods), maps.Clone(n.claims)
	out.requested, out.non0 = n.requested.clone(), n.non0.clone()
	out.ports = make(framework.HostPortInfo, len(n.ports))
	for ip, ports := range n.ports {
		out.ports[ip] = maps.Clone(ports)
	}
	return &out
}

// AddPodInfo implements framework.NodeInfo.
func (n *nodeInfo) AddPodInfo(p framework.PodInfo) {
	n.pods = append(n.pods, p)
	n.count(p, 1)
}

// RemovePod implements framework.NodeInfo. The last pod moves to the place of the removed pod.
func (n *nodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	i := slices.IndexFunc(n.pods, func(p framework.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if i < 0 {
		return fmt.Errorf("fwk: node %s has no pod %s/%s", n.node.Name, pod.Namespace, pod.Name)
	}
	gone, last := n.pods[i], len(n.pods)-1
	n.pods[i] = n.pods[last]
	n.pods = n.pods[:last]
	n.count(gone, -1)
	return nil
}

// count adds the pod to the sums, or with the sign -1 subtracts it.
func (n *nodeInfo) count(p framework.PodInfo, sign int64) {
	n.generation++
	needs, pod := p.CalculateResource(), p.GetPod()
	n.requested.add(needs.Resource, sign)
	n.non0.cpu += sign * needs.Non0CPU
	n.non0.memory += sign * needs.Non0Mem
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if sign > 0 {
				n.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
			} else {
				n.ports.Remove(port.HostIP, string(port.Protocol), port.HostPort)
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			key := pod.Namespace + "/" + claim.ClaimName
			if n.claims[key] += int(sign); n.claims[key] <= 0 {
				delete(n.claims, key)
			}
		}
	}
}
