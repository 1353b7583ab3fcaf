// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// nameTaken reports whether a static pod has to wait for an earlier pod of the same name. A
// previous agent started the earlier pod, and the manifest has changed since. Without the wait two
// instances of the service would run. nameTaken stops the earlier pod. For pods that this agent
// started, the workers compare names.
func (p *Pods) nameTaken(ctx context.Context, pod *v1.Pod, observed *runtime.PodStatus) (bool, error) {
	if observed.Current() != nil || !podfacts.IsStatic(pod) {
		return false, nil
	}
	listed, at := p.tracker.Pods()
	if at.IsZero() {
		var err error
		if listed, err = p.opts.Runtime.List(ctx, runtime.ListOptions{}); err != nil {
			return false, fmt.Errorf("look for an earlier pod of this name: %w", err)
		}
	}
	for _, other := range listed {
		if other.UID == pod.UID || other.Name != pod.Name || other.Namespace != pod.Namespace {
			continue
		}
		if stopping, err := p.stopUnknown(ctx, other.UID); stopping || err != nil {
			return stopping, err
		}
	}
	return false, nil
}
