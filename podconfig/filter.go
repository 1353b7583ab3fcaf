// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Errors wrapped by Rejection.Err.
var (
	// ErrDuplicateName: an earlier pod of the same batch has the same full name.
	ErrDuplicateName = errors.New("podconfig: duplicate pod name")
	// ErrDuplicateUID: an earlier pod of the same batch has the same UID.
	ErrDuplicateUID = errors.New("podconfig: duplicate pod UID")
	// ErrInvalidPod: the pod is nil or has no UID.
	ErrInvalidPod = errors.New("podconfig: invalid pod")
	// ErrConflict: another source holds a pod of the same full name or UID. Both pods are in the
	// store nevertheless.
	ErrConflict = errors.New("podconfig: pod conflicts with another source")
)

// podName holds the parts of FullName without an allocation.
type podName struct{ namespace, name string }

func nameOf(p *v1.Pod) podName { return podName{namespace: p.Namespace, name: p.Name} }

// rejection is a Rejection whose pod is still owned by the caller.
type rejection struct {
	pod *v1.Pod
	err error
}

// filter returns the accepted pods of a batch in order. If several pods share a name or UID, the
// first is accepted. The name and UID of a rejected pod remain free for later pods.
func filter(pods []*v1.Pod) ([]*v1.Pod, []rejection) {
	if len(pods) == 1 && invalid(pods[0]) == nil {
		return pods, nil
	}
	accepted := make([]*v1.Pod, 0, len(pods))
	names := make(map[podName]types.UID, len(pods))
	uids := make(map[types.UID]podName, len(pods))
	var rejected []rejection
	for _, p := range pods {
		if err := admit(p, names, uids); err != nil {
			rejected = append(rejected, rejection{pod: p, err: err})
			continue
		}
		names[nameOf(p)] = p.UID
		uids[p.UID] = nameOf(p)
		accepted = append(accepted, p)
	}
	return accepted, rejected
}

func admit(p *v1.Pod, names map[podName]types.UID, uids map[types.UID]podName) error {
	if err := invalid(p); err != nil {
		return err
	}
	if uid, taken := names[nameOf(p)]; taken {
		return fmt.Errorf("%w: %s of UID %s came after UID %s", ErrDuplicateName, FullName(p), p.UID, uid)
	}
	if name, taken := uids[p.UID]; taken {
		return fmt.Errorf("%w: %s of UID %s came after %s_%s", ErrDuplicateUID, FullName(p), p.UID, name.name, name.namespace)
	}
	return nil
}

func invalid(p *v1.Pod) error {
	if p == nil {
		return fmt.Errorf("%w: nil", ErrInvalidPod)
	}
	if p.UID == "" {
		return fmt.Errorf("%w: %s has no UID", ErrInvalidPod, FullName(p))
	}
	return nil
}
