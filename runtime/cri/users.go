// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// IDMapping maps a pod's users and groups to the node's in a user namespace: 0 of the pod is
// HostUID and HostGID, and so on. The kubelet gives each pod a distinct range of 65536 IDs, not
// below 65536.
type IDMapping struct {
	HostUID, HostGID uint32
	Length           uint32 // how many of each; at least 1
}

func (m IDMapping) check() error {
	switch {
	case m.Length == 0:
		return errors.New("Length is 0")
	case m.HostUID == 0 || m.HostGID == 0:
		return errors.New("the pod's root would be the node's")
	case m.Length > math.MaxUint32-m.HostUID || m.Length > math.MaxUint32-m.HostGID:
		return errors.New("the range exceeds the largest ID")
	}
	return nil
}

// hasOwnUsers reports whether the pod asks for a user namespace.
func hasOwnUsers(pod *v1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// users returns the pod's user namespace from Options.UserNamespaces; nil for a pod on the node's.
func (o *Options) users(pod *v1.Pod) (*api.UserNamespace, error) {
	if !hasOwnUsers(pod) || o.UserNamespaces == nil {
		return nil, nil // the latter has been refused
	}
	m, err := o.UserNamespaces(pod)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("spec.hostUsers: find the pod's IDs: %w", err)
	}
	return &api.UserNamespace{
		Mode: api.NamespaceMode_POD,
		Uids: []*api.IDMapping{{HostId: m.HostUID, Length: m.Length}},
		Gids: []*api.IDMapping{{HostId: m.HostGID, Length: m.Length}},
	}, nil
}

// usersOf is the user namespace of a sandbox; nil or mode NODE: the node's. containerd 2 refuses a
// container without the mode NODE in a sandbox with it, as the kubelet makes sandboxes.
func usersOf(s *sandbox) *api.UserNamespace {
	if s == nil {
		return nil
	}
	u := s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
	if u.GetMode() == api.NamespaceMode_POD && len(u.GetUids()) == 0 {
		return nil
	}
	return u
}

// refuseUsers returns the field and reason for which the pod cannot have a user namespace; both are
// "" if nothing is wrong.
func refuseUsers(pod *v1.Pod, opts *Options, info Info) (field, why string) {
	spec := &pod.Spec
	switch {
	case !hasOwnUsers(pod):
		return "", ""
	case opts.UserNamespaces == nil:
		return "spec.hostUsers", "this node has no IDs for user namespaces"
	case !handlerOf(pod, opts.RuntimeHandlers, info).UserNamespaces:
		return "spec.hostUsers", "this runtime has no user namespaces"
	case spec.HostPID:
		return "spec.hostPID", "not in a user namespace"
	case spec.HostIPC:
		return "spec.hostIPC", "not in a user namespace"
	case spec.HostNetwork && !info.UserNamespacesHostNetwork:
		return "spec.hostNetwork", "this runtime has it not in a user namespace"
	}
	return "", ""
}
