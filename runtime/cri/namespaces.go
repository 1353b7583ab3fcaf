// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespaceOptions returns the namespaces shared between pod and node and among the pod's
// containers.
func namespaceOptions(pod *v1.Pod) *api.NamespaceOption {
	out := &api.NamespaceOption{
		Network: api.NamespaceMode_POD,
		Ipc:     api.NamespaceMode_POD,
		Pid:     api.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		out.Network = api.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = api.NamespaceMode_NODE
	}
	switch share := pod.Spec.ShareProcessNamespace; {
	case pod.Spec.HostPID:
		out.Pid = api.NamespaceMode_NODE
	case share != nil && *share:
		out.Pid = api.NamespaceMode_POD
	}
	return out
}

// containerNamespaces returns the namespaces of one container. target is the container whose
// processes an ephemeral container sees; "" for no target.
func containerNamespaces(pod *v1.Pod, target string) *api.NamespaceOption {
	out := namespaceOptions(pod)
	if target != "" && out.Pid == api.NamespaceMode_CONTAINER {
		out.Pid, out.TargetId = api.NamespaceMode_TARGET, target
	}
	return out
}

// portMappings returns the ports of the pod's regular containers without duplicates. Like the
// kubelet, portMappings includes ports without a host port. A pod on the host network has no
// mappings.
func portMappings(pod *v1.Pod) []*api.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	type key struct {
		protocol        api.Protocol
		host            string
		container, port int32
	}
	seen := make(map[key]bool)
	var out []*api.PortMapping
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			k := key{protocolOf(p.Protocol), p.HostIP, p.ContainerPort, p.HostPort}
			if seen[k] {
				continue
			}
			seen[k] = true
			out = append(out, &api.PortMapping{Protocol: k.protocol, ContainerPort: k.container, HostPort: k.port, HostIp: k.host})
		}
	}
	return out
}

func protocolOf(p v1.Protocol) api.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return api.Protocol_UDP
	case v1.ProtocolSCTP:
		return api.Protocol_SCTP
	default:
		return api.Protocol_TCP
	}
}

// sysctls returns the pod's sysctls, with the kernel's dots for the slashes allowed by the API.
func sysctls(pod *v1.Pod) map[string]string {
	sc := pod.Spec.SecurityContext
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	out := make(map[string]string, len(sc.Sysctls))
	for _, s := range sc.Sysctls {
		out[sysctlName(s.Name)] = s.Value
	}
	return out
}

// sysctlName swaps the separators if a slash comes first: in "net/ipv4/conf/eth0.100/x" the dot is
// part of an interface's name.
func sysctlName(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '/':
			return '.'
		case '.':
			return '/'
		default:
			return r
		}
	}, name)
}
