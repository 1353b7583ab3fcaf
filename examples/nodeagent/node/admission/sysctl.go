// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

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
