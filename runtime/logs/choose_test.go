// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChoose(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	const a, b = "t://a", "t://b"
	for _, tc := range []struct {
		name        string
		id          string
		state, last v1.ContainerState
		which       Which
		want        string
		err         string
	}{
		{"running", a, running, ended(b), Current, a, ""},
		{"running without an ID", "", running, ended(b), Current, "", "its ID is not known"},
		{"previous of running", a, running, ended(b), Previous, b, ""},
		{"previous of the first", a, running, v1.ContainerState{}, Previous, "", "has no previous instance that terminated"},
		{"previous without an ID", a, running, ended(""), Previous, "", "has no previous instance"},
		{"terminated", a, ended(a), ended(b), Current, a, ""},
		{"terminated without an ID: the last state", "", ended(""), ended(b), Current, b, ""},
		{"terminated without any ID", "", ended(""), v1.ContainerState{}, Current, "", "is terminated"},
		{"crash loop: the last state", a, waiting("CrashLoopBackOff"), ended(b), Current, b, ""},
		{"waiting, last state without an ID", "", waiting("CrashLoopBackOff"), ended(""), Current, "", "is terminated"},
		{"image cannot be pulled", "", waiting("ErrImagePull"), v1.ContainerState{}, Current, "", "waiting to start: image can't be pulled"},
		{"image pull waits", "", waiting("ImagePullBackOff"), v1.ContainerState{}, Current, "", "waiting to start: trying and failing to pull image"},
		{"waiting", "", waiting("PodInitializing"), v1.ContainerState{}, Current, "", "waiting to start: PodInitializing"},
		{"waiting for no reason", "", waiting(""), v1.ContainerState{}, Current, "", "waiting to start: no logs yet"},
		{"no state", "", v1.ContainerState{}, v1.ContainerState{}, Current, "", "waiting to start: no logs yet"},
		{"image pull waits after a run: the last state", "", waiting("ImagePullBackOff"), ended(b), Current, b, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := v1.ContainerStatus{Name: "c", ContainerID: tc.id, State: tc.state, LastTerminationState: tc.last}
			other := v1.ContainerStatus{Name: "x", ContainerID: "t://x", State: running}
			for _, status := range []*v1.PodStatus{
				{ContainerStatuses: []v1.ContainerStatus{other, c}},
				{ContainerStatuses: []v1.ContainerStatus{other}, InitContainerStatuses: []v1.ContainerStatus{c}},
				{InitContainerStatuses: []v1.ContainerStatus{other}, EphemeralContainerStatuses: []v1.ContainerStatus{c}},
			} {
				id, err := Choose(status, "c", tc.which)
				require.Equal(t, tc.want, id.String())
				if tc.err == "" {
					require.NoError(t, err)
					continue
				}
				var unavailable *UnavailableError
				require.ErrorAs(t, err, &unavailable)
				require.ErrorContains(t, err, `container "c" `)
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
	_, err := Choose(&v1.PodStatus{}, "c", Current)
	require.EqualError(t, err, `container "c" is not available`)
	_, err = Choose(&v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "nonsense", State: running}}}, "c", Current)
	require.ErrorContains(t, err, `container ID "nonsense"`)
}

func TestNewOptions(t *testing.T) {
	now := noon()
	n, zero, minus := int64(10), int64(0), int64(-1)
	huge := int64(1) << 62
	at := metav1.NewTime(now.Add(-5 * time.Second))
	for _, tc := range []struct {
		name string
		api  v1.PodLogOptions
		want Options
		err  string
	}{
		{"nothing", v1.PodLogOptions{}, Options{}, ""},
		{"all", v1.PodLogOptions{Follow: true, Timestamps: true, TailLines: &zero, LimitBytes: &n},
			Options{Follow: true, Timestamps: true, Tail: &zero, LimitBytes: &n}, ""},
		{"sinceTime", v1.PodLogOptions{SinceTime: &at}, Options{Since: at.Time}, ""},
		{"sinceSeconds", v1.PodLogOptions{SinceSeconds: &n}, Options{Since: now.Add(-10 * time.Second)}, ""},
		{"the later of both", v1.PodLogOptions{SinceSeconds: &n, SinceTime: &at}, Options{Since: at.Time}, ""},
		{"since for ever", v1.PodLogOptions{SinceSeconds: &huge}, Options{Since: now.Add(-9223372036 * time.Second)}, ""},
		{"negative tail", v1.PodLogOptions{TailLines: &minus}, Options{}, "tailLines: -1 is negative"},
		{"no bytes", v1.PodLogOptions{LimitBytes: &zero}, Options{}, "limitBytes: less than 1"},
		{"no seconds", v1.PodLogOptions{SinceSeconds: &zero}, Options{}, "sinceSeconds: 0 is less than 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := NewOptions(&tc.api, now)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.True(t, tc.want.Since.Equal(got.Since), "%s %s", tc.want.Since, got.Since)
			got.Since = tc.want.Since
			require.Equal(t, tc.want, got)
		})
	}
}
