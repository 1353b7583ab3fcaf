// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// TestResizeFromTheManagerToTheStatus wires the parts as an agent does.
func TestResizeFromTheManagerToTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := fake.New(fake.Options{})
		require.NoError(t, err)
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(t, err)
		manager, err := runtime.New(runtime.Options{Runtime: rt, Generator: generator})
		require.NoError(t, err)
		var resizing runtime.Resizing
		sync := func(r v1.ResourceRequirements) v1.PodStatus {
			pod := podOf(t, always, "main a")
			pod.Spec.Containers[0].Resources = r
			result := manager.SyncPod(t.Context(), runtime.SyncRequest{Pod: pod})
			resizing.Apply(result)
			return Generate(Input{
				Pod: pod, Observed: result.Status, Now: time.Now(), Resizing: resizing,
				Actuated: func(id runtime.ContainerID) (v1.ResourceRequirements, bool) { return manager.Actuated(pod.UID, id) },
			})
		}
		rt.Script(fake.Target{}, fake.Script{Memory: 3 << 29})

		sync(needs("memory=1Gi", "memory=2Gi"))
		out := sync(needs("memory=512Mi", "memory=1Gi"))
		require.Equal(t, v1.PodReasonError, condition(out.Conditions, v1.PodResizeInProgress).Reason)
		require.Contains(t, condition(out.Conditions, v1.PodResizeInProgress).Message, "cannot decrease memory limits")
		assertAmounts(t, "memory=512Mi", out.ContainerStatuses[0].AllocatedResources)
		assertAmounts(t, "memory=1Gi", out.ContainerStatuses[0].Resources.Requests)
		assertAmounts(t, "memory=2Gi", out.ContainerStatuses[0].Resources.Limits)

		out = sync(needs("memory=512Mi", "memory=1537Mi"))
		require.Nil(t, condition(out.Conditions, v1.PodResizeInProgress))
		assertAmounts(t, "memory=512Mi", out.ContainerStatuses[0].Resources.Requests)
		assertAmounts(t, "memory=1537Mi", out.ContainerStatuses[0].Resources.Limits)
	})
}
