// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// unmetPort returns the field that keeps a node from honouring a port of a Service, with the remedy,
// or "". pods are the selected pods. On a node without pod networks, all pods are on the host's
// network.
func unmetPort(s *v1.Service, i int, pods []selectedPod, onlyHostNetwork bool) (field, text string) {
	p := s.Spec.Ports[i]
	targets := targetsOf(p, pods)
	at := fmt.Sprintf("spec.ports[%d].", i)
	if p.TargetPort.Type == intstr.String && len(targets) == 0 {
		return at + "targetPort", fmt.Sprintf("no selected pod of this manifest has a port %q: write its number", p.TargetPort.StrVal)
	}
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != p.Port {
		return at + "targetPort", untranslated(p.TargetPort.IntVal, p.Port)
	}
	for _, t := range targets {
		if t.port != p.Port {
			return at + "targetPort", untranslated(t.port, p.Port)
		}
	}
	if p.NodePort != 0 && p.NodePort != p.Port {
		return at + "nodePort", fmt.Sprintf("this node translates no ports: remove it, or let the pod listen on %d", p.NodePort)
	}
	if opensPorts(s) {
		return unmetNodePort(s, p, targets, onlyHostNetwork)
	}
	return "", ""
}

func untranslated(target, port int32) string {
	return fmt.Sprintf("this node translates no ports: set port to %d, or let the pod listen on %d", target, port)
}

// unmetNodePort is unmetPort for a Service whose ports are ports of the node: its only pod has to listen
// on this port of the node.
func unmetNodePort(s *v1.Service, p v1.ServicePort, targets []target, onlyHostNetwork bool) (field, text string) {
	present := 0
	for _, t := range targets {
		if !t.pod.absent {
			present++
		}
	}
	deaf := func(t target) bool { return !onlyHostNetwork && !listensOnNode(t.pod.Pod, p) }
	switch i := slices.IndexFunc(targets, deaf); {
	case len(targets) == 0:
		text = "it selects no pod of this manifest: put the Service and its pod into the same manifest"
	case present > 1:
		text = fmt.Sprintf("%d pods of a node cannot have the same port %d: select a single pod", present, p.Port)
	case i >= 0:
		text = fmt.Sprintf("this node forwards no ports: set hostPort %d, without a hostIP, in pod %s", p.Port, targets[i].pod.Name)
	case s.Spec.Type == v1.ServiceTypeNodePort && p.NodePort == 0:
		text = fmt.Sprintf("this node chooses no ports: set nodePort to %d", p.Port)
	default:
		return "", ""
	}
	return "spec.type", fmt.Sprintf("%s refused, %s, or remove the type", s.Spec.Type, text)
}

// target is the port of a selected pod to which a Service sends.
type target struct {
	pod  selectedPod
	port int32
}

// targetsOf returns the target in each selected pod. A pod without a port of the name has no target, as
// in Kubernetes.
func targetsOf(p v1.ServicePort, pods []selectedPod) (all []target) {
	for _, pod := range pods {
		if p.TargetPort.Type == intstr.Int {
			all = append(all, target{pod, p.TargetPort.IntVal})
			continue
		}
		for _, port := range portsOf(pod.Pod) {
			if port.Name == p.TargetPort.StrVal && sameProtocol(port, p) {
				all = append(all, target{pod, port.ContainerPort})
				break
			}
		}
	}
	return all
}

// listensOnNode reports whether a port of the pod is the same port at all addresses of the node. A pod on
// the host's network listens there without a declared port, too.
func listensOnNode(pod *v1.Pod, p v1.ServicePort) bool {
	if pod.Spec.HostNetwork {
		return true
	}
	for _, port := range portsOf(pod) {
		everywhere := port.HostIP == "" || port.HostIP == "0.0.0.0" || port.HostIP == "::"
		if everywhere && port.HostPort == p.Port && port.ContainerPort == p.Port && sameProtocol(port, p) {
			return true
		}
	}
	return false
}

// portsOf returns the ports of the containers and sidecars of a pod.
func portsOf(pod *v1.Pod) (all []v1.ContainerPort) {
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Ports...)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			all = append(all, c.Ports...)
		}
	}
	return all
}

// sameProtocol compares the protocol of a port of a pod with that of a port of a Service, which is set.
func sameProtocol(port v1.ContainerPort, p v1.ServicePort) bool {
	return port.Protocol == p.Protocol || port.Protocol == "" && p.Protocol == v1.ProtocolTCP
}
