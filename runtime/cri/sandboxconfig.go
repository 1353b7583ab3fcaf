// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// annotationHostname, on sandboxes, holds SandboxSpec.Hostname. A container made later, perhaps by
// another agent, needs the hostname, and CRI does not return the hostname.
const annotationHostname = "keelson.dev/hostname"

// sandboxConfig returns the CRI configuration for spec. users is the pod's user namespace; nil
// means the node's.
func sandboxConfig(spec runtime.SandboxSpec, dns *api.DNSConfig, users *api.UserNamespace, opts *Options) (*api.PodSandboxConfig, error) {
	pod := spec.Pod
	switch {
	case pod == nil:
		return nil, errors.New("SandboxSpec.Pod is missing")
	case spec.UID == "" || spec.Name == "" || spec.Namespace == "":
		return nil, errors.New("SandboxSpec: want UID, Namespace and Name")
	case spec.LogDirectory != "" && !filepath.IsAbs(spec.LogDirectory):
		return nil, errors.New("SandboxSpec.LogDirectory is not absolute")
	}
	security, err := sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	security.NamespaceOptions.UsernsOptions = users
	security.NamespaceOptions.Network = networkMode(spec.HostNetwork)
	if spec.HostNetwork {
		spec.Hostname = "" // the pod shares the node's hostname
	}
	resources, overhead := podResources(pod)
	config := &api.PodSandboxConfig{
		Metadata:     &api.PodSandboxMetadata{Name: spec.Name, Namespace: spec.Namespace, Uid: string(spec.UID), Attempt: spec.Attempt},
		Hostname:     spec.Hostname,
		LogDirectory: spec.LogDirectory,
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       withIdentity(spec.Labels, spec.UID, spec.Namespace, spec.Name),
		Annotations:  maps.Clone(spec.Annotations),
		Linux: &api.LinuxPodSandboxConfig{
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Resources:       resources,
			Overhead:        overhead,
		},
	}
	if opts.CgroupParent != nil {
		config.Linux.CgroupParent = opts.CgroupParent(pod)
	}
	if spec.Hostname != "" {
		if config.Annotations == nil {
			config.Annotations = make(map[string]string, 1)
		}
		config.Annotations[annotationHostname] = spec.Hostname
	}
	return config, nil
}

func networkMode(host bool) api.NamespaceMode {
	if host {
		return api.NamespaceMode_NODE
	}
	return api.NamespaceMode_POD
}

// withIdentity returns labels plus the labels of the pod's identity.
func withIdentity(labels map[string]string, uid types.UID, namespace, name string) map[string]string {
	out := make(map[string]string, len(labels)+4)
	maps.Copy(out, labels)
	out[containermeta.LabelPodUID] = string(uid)
	out[containermeta.LabelPodNamespace] = namespace
	out[containermeta.LabelPodName] = name
	return out
}

// foundSandbox reconstructs the spec of a sandbox made by another agent from the sandbox's status
// and the first container to be made in the sandbox.
func foundSandbox(st *api.PodSandboxStatus, spec runtime.ContainerSpec) runtime.SandboxSpec {
	meta := st.GetMetadata()
	out := runtime.SandboxSpec{
		UID:         types.UID(meta.GetUid()),
		Namespace:   meta.GetNamespace(),
		Name:        meta.GetName(),
		Attempt:     meta.GetAttempt(),
		HostNetwork: isHostNetwork(st),
		Labels:      st.GetLabels(),
		Annotations: st.GetAnnotations(),
		Pod:         spec.Pod,
	}
	if !out.HostNetwork {
		out.Hostname = cmp.Or(st.GetAnnotations()[annotationHostname], plainHostname(spec.Pod))
	}
	if spec.LogPath != "" {
		// <directory>/<container>/<restart count>.log
		out.LogDirectory = filepath.Dir(filepath.Dir(spec.LogPath))
	}
	return out
}

func isHostNetwork(st *api.PodSandboxStatus) bool {
	return st.GetLinux().GetNamespaces().GetOptions().GetNetwork() == api.NamespaceMode_NODE
}

// plainHostname is the kubelet's rule for a pod's hostname, for a sandbox made by a kubelet.
func plainHostname(pod *v1.Pod) string {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return *o
	}
	const longest = 63
	name := cmp.Or(pod.Spec.Hostname, pod.Name)
	return strings.TrimRight(name[:min(longest, len(name))], "-.")
}
