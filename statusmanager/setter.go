// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Setter may also be implemented by a Patcher that has the pods in its own process. The Manager then
// calls SetStatus instead of PatchStatus, and encodes no patch, if the pod's status on the server is
// known.
type Setter interface {
	// SetStatus has the result and the errors of PatchStatus with the text of p.Encode. A server whose
	// pod still has the resource version p.Version may store p.Status instead. From then on neither
	// side writes to p.Status, nor to the returned pod.
	SetStatus(ctx context.Context, pod PodRef, p Patch) (*v1.Pod, error)
}

// Patch is a change of a pod's status.
type Patch struct {
	// Version is the resource version of the pod to which the patch applies.
	Version string
	// Status is the status of that pod after the patch.
	Status *v1.PodStatus
	// Encode returns the strategic merge patch.
	Encode func() ([]byte, error)
}
