// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
)

// The tests of controllers with envtest write the statuses of pods by hand: Failed for an attempt that is to be
// repeated, or the condition Ready for a step of a rollout. Here the nodes write them.

// reconcile calls f several times a second until the test ends.
func reconcile(t *testing.T, f func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// list returns the pods of a namespace in the order of their names.
func list(ctx context.Context, pods corev1.PodInterface) ([]v1.Pod, error) {
	all, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Items, func(a, b v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all.Items, nil
}

// retries creates a pod for each attempt of a piece of work, up to a number of attempts, and stores the outcome
// in a ConfigMap.
func retries(core corev1.CoreV1Interface, namespace string, most int) func(ctx context.Context) error {
	pods, results := core.Pods(namespace), core.ConfigMaps(namespace)
	return func(ctx context.Context) error {
		all, err := list(ctx, pods)
		if err != nil {
			return err
		}
		outcome := ""
		switch n := len(all); {
		case slices.ContainsFunc(all, func(p v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded }):
			outcome = "succeeded after " + strconv.Itoa(n)
		case slices.ContainsFunc(all, func(p v1.Pod) bool { return p.Status.Phase != v1.PodFailed }):
			return nil // an attempt is under way
		case n == most:
			outcome = "failed after " + strconv.Itoa(n)
		default:
			pod := bound(fmt.Sprintf("attempt-%d", n), "", "runs", "200ms", "exit-code", strconv.Itoa(max(0, 2-n)))
			pod.Namespace, pod.Spec.RestartPolicy = namespace, v1.RestartPolicyNever
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
			return err
		}
		_, err = results.Get(ctx, "outcome", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		_, err = results.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "outcome"}, Data: map[string]string{"outcome": outcome}}, metav1.CreateOptions{})
		return err
	}
}

// TestAControllerRepeatsFailedPods: the first two attempts exit with codes 2 and 1, the third succeeds.
func TestAControllerRepeatsFailedPods(t *testing.T) {
	server := apiserver.Get(t)
	core, err := server.Core()
	require.NoError(t, err)
	for namespace, most := range map[string]int{"patient": 5, "impatient": 2} {
		require.NoError(t, server.CreateNamespace(t.Context(), namespace))
		reconcile(t, retries(core, namespace, most))
	}
	fleet.Start(t, server.Config(), 2)
	outcome := func(namespace string) (text string) {
		require.Eventually(t, func() bool {
			result, err := core.ConfigMaps(namespace).Get(t.Context(), "outcome", metav1.GetOptions{})
			if err == nil {
				text = result.Data["outcome"]
			}
			return err == nil
		}, patience, 50*time.Millisecond)
		return text
	}
	assert.Equal(t, "succeeded after 3", outcome("patient"))
	assert.Equal(t, "failed after 2", outcome("impatient"))
}

// rollout brings pods to a version one at a time: it deletes an old pod if all pods are ready, and creates the
// missing pods.
func rollout(pods corev1.PodInterface, namespace string, want int, version func() string) func(ctx context.Context) error {
	created := 0
	return func(ctx context.Context) error {
		all, err := list(ctx, pods)
		if err != nil {
			return err
		}
		ready := slices.DeleteFunc(slices.Clone(all), func(p v1.Pod) bool { return p.DeletionTimestamp != nil || !isReady(&p) })
		old := slices.IndexFunc(all, func(p v1.Pod) bool { return p.Labels["version"] != version() })
		switch {
		case len(all) < want:
			pod := bound(fmt.Sprintf("web-%d", created), "", "ready-after", "300ms", "stops-after", "200ms")
			created++
			pod.Namespace, pod.Labels = namespace, map[string]string{"version": version()}
			pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{
				PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}},
			}
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
		case old >= 0 && len(ready) == want:
			err = pods.Delete(ctx, all[old].Name, metav1.DeleteOptions{})
		}
		return err
	}
}

// TestAControllerRollsOut: at each instant after the first, at least two of three pods are ready.
func TestAControllerRollsOut(t *testing.T) {
	server := apiserver.Get(t)
	core, err := server.Core()
	require.NoError(t, err)
	require.NoError(t, server.CreateNamespace(t.Context(), "rollout"))
	pods := core.Pods("rollout")
	versions := make(chan string, 1)
	versions <- "1"
	version := func() string {
		v := <-versions
		versions <- v
		return v
	}
	fleet.Start(t, server.Config(), 2)
	reconcile(t, rollout(pods, "rollout", 3, version))
	state := func() (ready, current int) {
		all, err := list(t.Context(), pods)
		require.NoError(t, err)
		for i := range all {
			if isReady(&all[i]) && all[i].DeletionTimestamp == nil {
				ready++
				if all[i].Labels["version"] == version() {
					current++
				}
			}
		}
		return ready, current
	}
	await := func(least int) {
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			ready, current := state()
			require.GreaterOrEqual(t, ready, least, "ready pods during the rollout")
			if current == 3 {
				return
			}
			require.True(t, time.Now().Before(end), "%d of 3 pods have the version", current)
		}
	}
	await(0)
	<-versions
	versions <- "2"
	await(2)
}
