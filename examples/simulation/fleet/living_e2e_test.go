// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
)

func TestLivingPods(t *testing.T) {
	server := apiserver.Get(t)
	config := server.Config()
	core, err := server.Core()
	require.NoError(t, err)

	fleet.Start(t, config, 3)
	pods := core.Pods("default")
	_, err = pods.Create(t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "works", Annotations: map[string]string{fleet.AnnotationRuns: "2s"}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever,
			Containers:    []v1.Container{{Name: "main", Image: "example.com/work:1"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		pod, err := pods.Get(t.Context(), "works", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == v1.PodSucceeded
	}, time.Minute, 100*time.Millisecond)
}
