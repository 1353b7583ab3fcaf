// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/nodeselector"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Check returns the reasons to refuse a pod. used is the sum of the demands of the node's active
// pods. An empty result admits the pod.
func Check(node *Node, used *Usage, own *Demand) []Failure {
	return slices.Concat(checkSystem(node, own.Pod), checkRoom(node, used, own))
}

// checkSystem returns the failures that do not depend on other pods or on the state of the Node
// object: a wrong operating system and forbidden sysctls.
func checkSystem(node *Node, pod *v1.Pod) (failures []Failure) {
	if label, ok := pod.Labels[v1.LabelOSStable]; ok && node.OS != "" && label != node.OS {
		failures = append(failures, Failure{Reason: ReasonOSSelector, Message: messageOSSelector})
	}
	if pod.Spec.OS != nil && node.OS != "" && string(pod.Spec.OS.Name) != node.OS {
		failures = append(failures, Failure{Reason: ReasonOS, Message: messageOS})
	}
	if err := checkSysctls(node, pod); err != nil {
		failures = append(failures, Failure{Reason: ReasonSysctl, Message: "forbidden sysctl: " + err.Error()})
	}
	return failures
}

// checkRoom returns all other failures of a pod.
func checkRoom(node *Node, used *Usage, own *Demand) (failures []Failure) {
	for _, short := range fits(node, used, own) {
		failures = append(failures, Failure{
			Reason:   ReasonOutOf + string(short.Resource),
			Message:  fmt.Sprintf(messageNodeResources, short.Resource, short.Requested, short.Used, short.Capacity),
			Shortage: &short,
		})
	}
	pod := own.Pod
	if !MatchesNode(pod, node) {
		failures = append(failures, Failure{Reason: ReasonNodeAffinity, Message: messageNodeAffinity})
	}
	if pod.Spec.NodeName != "" && node.Name != "" && pod.Spec.NodeName != node.Name {
		failures = append(failures, Failure{Reason: ReasonNodeName, Message: messageNodeName})
	}
	if slices.ContainsFunc(own.ports, used.isTaken) {
		failures = append(failures, Failure{Reason: ReasonNodePorts, Message: messageNodePorts})
	}
	if !own.IsStatic() && !toleratesAll(pod, node.Taints) {
		failures = append(failures, Failure{Reason: ReasonTaint, Message: messageTaint})
	}
	return failures
}

// fits returns the resources that the node lacks for own.
func fits(node *Node, used *Usage, own *Demand) (short []Shortage) {
	if most, ok := node.Allocatable[v1.ResourcePods]; ok {
		n := used.amounts[v1.ResourcePods]
		if n+1 > most.Value() {
			short = append(short, Shortage{Resource: v1.ResourcePods, Requested: 1, Used: n, Capacity: most.Value()})
		}
	}
	for _, a := range own.amounts {
		capacity, limited := node.capacity(a)
		unpromised := a.extended && own.IsStatic() // no scheduler has checked the request
		if !limited && !unpromised || a.extended && node.assigns(a.name) {
			continue
		}
		if n := used.amounts[a.name]; a.value > capacity-n {
			short = append(short, Shortage{Resource: a.name, Requested: a.value, Used: n, Capacity: capacity})
		}
	}
	return short
}

// capacity returns the node's amount of a requested resource, and whether the amount limits
// requests.
func (n *Node) capacity(a amount) (amount int64, limited bool) {
	if q, ok := n.Allocatable[a.name]; ok {
		return count(a.name, q), true
	}
	switch {
	case n.Allocatable == nil: // a node without any limit
		return 0, false
	case a.name == v1.ResourceCPU, a.name == v1.ResourceMemory, a.name == v1.ResourceEphemeralStorage:
		return 0, false
	case a.extended: // an extended resource of the cluster, checked by the scheduler
		return 0, false
	}
	return 0, true
}

// most is larger than the amount of any resource on a node. A larger request counts as most, so
// that the sum of a hundred requests does not overflow.
const most = 1 << 56

// count returns q in a Shortage's units.
func count(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return min(quantities.Milli(q), most)
	}
	return min(quantities.Value(q), most)
}

// DependsOnNode reports whether the decision about a pod depends on the present Node object. Labels
// and taints count if the pod fails because of them. Amounts of extended resources count if the pod
// requests extended resources, because an administrator may have changed the amounts.
func DependsOnNode(node *Node, own *Demand, failures []Failure) bool {
	against := func(f Failure) bool { return f.Reason == ReasonNodeAffinity || f.Reason == ReasonTaint }
	counted := func(a amount) bool { return a.extended && !node.assigns(a.name) }
	return slices.ContainsFunc(failures, against) || slices.ContainsFunc(own.amounts, counted)
}

// assigns reports whether another part of the node counts the extended resource.
func (n *Node) assigns(name v1.ResourceName) bool { return n.Assigned != nil && n.Assigned(name) }

// MatchesNode reports whether the pod's node selector and required node affinity match the node.
func MatchesNode(pod *v1.Pod, node *Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if have, ok := node.Labels[key]; !ok || have != value {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t v1.NodeSelectorTerm) bool { return MatchesTerm(&t, node) })
}

// MatchesTerm reports whether all requirements of the term match the node. An empty term matches no
// node.
func MatchesTerm(t *v1.NodeSelectorTerm, node *Node) bool {
	return nodeselector.Matches(t, node.Labels, node.Name)
}

// toleratesAll reports whether the pod tolerates all taints with the effect NoExecute.
func toleratesAll(pod *v1.Pod, taints []v1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != v1.TaintEffectNoExecute {
			continue
		}
		if !Tolerates(pod, &taints[i]) {
			return false
		}
	}
	return true
}

// Tolerates reports whether the pod tolerates a taint of any effect.
func Tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return tolerates(&t, taint) })
}

func tolerates(t *v1.Toleration, taint *v1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		return t.Value == taint.Value
	case v1.TolerationOpExists:
		return true
	}
	// The operators Lt and Gt are alpha. Their feature gate is off by default, and this package has
	// no feature gates.
	return false
}

// safeSysctls are the sysctls that affect only the pod itself (kubelet 1.36). Every kernel since
// 5.0 has them per namespace.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// checkSysctls returns an error for the first forbidden sysctl of the pod. A sysctl is forbidden if
// it is not in the list of allowed names, or if the pod shares its namespace with the node.
func checkSysctls(node *Node, pod *v1.Pod) error {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		namespace := sysctlNamespace(name)
		allowed := slices.Contains(safeSysctls, name) || slices.ContainsFunc(node.UnsafeSysctls, func(pattern string) bool {
			pattern = strings.ReplaceAll(pattern, "/", ".")
			if prefix, any := strings.CutSuffix(pattern, "*"); any {
				return strings.HasPrefix(name, prefix)
			}
			return pattern == name
		})
		switch {
		case !allowed || namespace == "":
			return fmt.Errorf("%q not allowlisted", name)
		case namespace == "Net" && pod.Spec.HostNetwork:
			return fmt.Errorf("%q not allowed with host Net enabled", name)
		case namespace == "IPC" && pod.Spec.HostIPC:
			return fmt.Errorf("%q not allowed with host IPC enabled", name)
		}
	}
	return nil
}

// sysctlNamespace returns the kernel namespace of a sysctl, "" if the sysctl has none.
func sysctlNamespace(name string) string {
	switch {
	case strings.HasPrefix(name, "net."):
		return "Net"
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "IPC"
	case name == "kernel.domainname", name == "kernel.hostname":
		return "UTS"
	}
	return ""
}
