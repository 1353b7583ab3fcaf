// SPDX-License-Identifier: Apache-2.0

package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// openGate is the Gate of a node without the feature gate. It admits every pod with the requested
// resources.
type openGate struct{}

// Feature implements feature.Gate.
func (openGate) Feature() feature.Feature { return feature.Feature{Name: "open-gate"} }

// Order implements feature.Gate.
func (openGate) Order(pods []*v1.Pod) []*v1.Pod { return pods }

// Admit implements feature.Gate.
func (openGate) Admit(*v1.Pod) feature.AdmitResult { return feature.AdmitResult{} }

// Release implements feature.Gate.
func (openGate) Release(types.UID) {}

// Allocated implements feature.Gate.
func (openGate) Allocated(pod *v1.Pod) *v1.Pod { return pod }

// Changed implements feature.Gate.
func (openGate) Changed() <-chan struct{} { return nil }

// Reconsider implements feature.Gate.
func (openGate) Reconsider() []*v1.Pod { return nil }

// Resized implements feature.Gate.
func (openGate) Resized() []*v1.Pod { return nil }
