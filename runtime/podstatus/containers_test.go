// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// TestContainerStates has one row for each way a record becomes a status.
func TestContainerStates(t *testing.T) {
	for _, c := range []struct {
		name     string
		pod      []string
		observed []string
		want     string // of container a
	}{
		{"nothing made", []string{"main a"}, nil, "waiting ContainerCreating"},
		{"nothing made, init first", []string{"init i", "main a"}, nil, "waiting PodInitializing"},
		{"an init container waits for init, too", []string{"init a", "main b"}, nil, "waiting PodInitializing"},
		{"an ephemeral container", []string{"main b", "debug a"}, nil, "waiting ContainerCreating"},
		{"created", []string{"main a"}, []string{"a created"}, "waiting"},
		{"running", []string{"main a"}, []string{"a running #2"}, "running #2"},
		{"exited", []string{"main a"}, []string{"a exited 3 OOMKilled"}, "terminated OOMKilled 3 a-0"},
		{"exited, no reason, 0", []string{"main a"}, []string{"a exited 0"}, "terminated Completed 0 a-0"},
		{"exited, no reason, not 0", []string{"main a"}, []string{"a exited 143"}, "terminated Error 143 a-0"},
		{"unknown, nothing before", []string{"main a"}, []string{"a unknown"}, "waiting"},
		{"the second record is the last state, the rest is ignored", []string{"main a"},
			[]string{"a running #2", "a exited 1 #1", "a exited 9"}, "running #2, last terminated Error 1 a-1"},
		{"a record that never ran is no last state", []string{"main a"},
			[]string{"a created #2", "a created #1", "a exited 9"}, "waiting #2, last terminated Error 9 a-0"},
		{"records of others are ignored", []string{"main a"}, []string{"b running"}, "waiting ContainerCreating"},
		{"an ephemeral container that ended", []string{"main b", "debug a"}, []string{"a exited 0"}, "terminated Completed 0 a-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := generate(podOf(t, always, c.pod...), seen(t, c.observed...))
			assert.Equal(t, c.want, show(statusOf(&out, "a")))
		})
	}
}

func TestContainerStatusFields(t *testing.T) {
	observed := seen(t, "sandbox s", "a exited 7 Error")
	in := &observed.Containers[0]
	in.Message, in.User, in.ImageID = "out of cheese", &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 5}}, "sha256:2"
	out := generate(podOf(t, always, "main a"), observed)
	want := v1.ContainerStatus{
		Name: "a", Image: "image", ImageID: "image@sha256:1", ContainerID: "test://a-0", Started: new(false), User: in.User,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 7, Reason: "Error", Message: "out of cheese", ContainerID: "test://a-0",
			StartedAt: metav1.NewTime(in.StartedAt), FinishedAt: metav1.NewTime(in.FinishedAt),
		}},
	}
	assert.Equal(t, []v1.ContainerStatus{want}, out.ContainerStatuses)
	assert.NotSame(t, in.User, out.ContainerStatuses[0].User)

	in.Image, in.ImageRef = "", ""
	out = generate(podOf(t, always, "main a"), observed)
	assert.Equal(t, "image", out.ContainerStatuses[0].Image, "the spec's, if the runtime does not say")
	assert.Equal(t, "sha256:2", out.ContainerStatuses[0].ImageID)
}

func TestContainerStatusOrder(t *testing.T) {
	out := generate(podOf(t, always, "init z", "side y", "init x", "main c", "main a", "main b", "debug e", "debug d"), nil)
	names := func(list []v1.ContainerStatus) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	assert.Equal(t, []string{"z", "y", "x"}, names(out.InitContainerStatuses), "spec order")
	assert.Equal(t, []string{"a", "b", "c"}, names(out.ContainerStatuses), "by name")
	assert.Equal(t, []string{"d", "e"}, names(out.EphemeralContainerStatuses), "by name")
}

// TestStartFailures: containers that should start and cannot.
func TestStartFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   v1.RestartPolicy
		pod      []string
		observed []string
		want     string // status of container a, whose start failed with CrashLoopBackOff
	}{
		{"never made", always, []string{"main a"}, []string{"sandbox s"}, "waiting CrashLoopBackOff"},
		{"created", always, []string{"main a"}, []string{"a created"}, "waiting CrashLoopBackOff"},
		{"exited: its end moves to the last state", always, []string{"main a"}, []string{"a exited 1 #3", "a exited 2 #2"},
			"waiting CrashLoopBackOff #3, last terminated Error 1 a-1"},
		{"running again: the failure is old", always, []string{"main a"}, []string{"a running"}, "running"},
		{"not to be restarted", onFailure, []string{"main a"}, []string{"a exited 0"}, "terminated Completed 0 a-0"},
		{"to be restarted by a rule", never, []string{"main a policy=Never rule=Restart/In/42"}, []string{"a exited 42"},
			"waiting CrashLoopBackOff, last terminated Error 42 a-0"},
		{"deleted: nothing restarts", always, []string{"main a", "deleted"}, []string{"a exited 1"}, "terminated Error 1 a-0"},
		{"init, failed", always, []string{"init a", "main b"}, []string{"a exited 1"}, "waiting CrashLoopBackOff, last terminated Error 1 a-0"},
		{"init, complete", always, []string{"init a", "main b"}, []string{"a exited 0"}, "terminated Completed 0 a-0"},
		{"init, out of memory with code 0 is no success", always, []string{"init a", "main b"}, []string{"a exited 0 OOMKilled"},
			"waiting CrashLoopBackOff, last terminated OOMKilled 0 a-0"},
		{"init, failed, but init has come past it", always, []string{"init a", "init j", "main b"}, []string{"sandbox s", "j running", "a exited 1"},
			"terminated Error 1 a-0"},
		{"init, record gone, pod initialized", always, []string{"init a", "main b"}, []string{"sandbox s", "b running"}, "terminated Completed 0"},
		{"sidecar, exit 0 is no success", never, []string{"side a", "main b"}, []string{"a exited 0"},
			"waiting CrashLoopBackOff, last terminated Completed 0 a-0"},
		{"ephemeral, never made", always, []string{"main b", "debug a"}, []string{"sandbox s"}, "waiting CrashLoopBackOff"},
		{"ephemeral, exited: never restarted", always, []string{"main b", "debug a"}, []string{"a exited 1"}, "terminated Error 1 a-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, c.policy, c.pod...), Observed: seen(t, c.observed...), Now: noon}
			in.StartFailures = runtime.StartFailures{"a": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
			out := Generate(in)
			a := statusOf(&out, "a")
			require.Equal(t, c.want, show(a))
			if a.State.Waiting != nil {
				assert.Equal(t, "back-off 10s", a.State.Waiting.Message)
			}

			in.StartFailures = runtime.StartFailures{"a": {}, "other": {Reason: "ErrImagePull"}}
			out = Generate(in)
			assert.NotContains(t, show(statusOf(&out, "a")), "CrashLoopBackOff", "without a failure the end stays visible")

			in.StartFailures = runtime.StartFailures{"a": {Reason: "CrashLoopBackOff"}}
			in.Stage = StageTerminating
			out = Generate(in)
			assert.NotContains(t, show(statusOf(&out, "a")), "CrashLoopBackOff", "nothing starts while terminating")
		})
	}
}

// TestEndIsShownOnce: an exit that was the last state of a waiting container does not become its
// own predecessor.
func TestEndIsShownOnce(t *testing.T) {
	in := Input{Pod: podOf(t, always, "main a"), Observed: seen(t, "a exited 1 #3"), StartFailures: crashing("a"), Now: noon}
	waiting := Generate(in)
	require.Equal(t, "waiting CrashLoopBackOff #3, last terminated Error 1 a-0", show(statusOf(&waiting, "a")))

	in.Previous, in.StartFailures = &waiting, nil
	out := Generate(in)
	assert.Equal(t, "terminated Error 1 a-0 #3", show(statusOf(&out, "a")))
}

// TestStartedAndReady: both belong to the running instance, and the prober is asked only about
// probes in the spec.
func TestStartedAndReady(t *testing.T) {
	yes := func(runtime.ContainerID) bool { return true }
	no := func(runtime.ContainerID) bool { return false }
	for _, c := range []struct {
		name           string
		pod            []string
		observed       string
		started, ready func(runtime.ContainerID) bool
		want           [2]bool // started, ready
	}{
		{"running, nobody to ask", []string{"main a startup readiness"}, "a running", nil, nil, [2]bool{true, true}},
		{"running, no probes", []string{"main a"}, "a running", no, no, [2]bool{true, true}},
		{"running, not started", []string{"main a startup readiness"}, "a running", no, yes, [2]bool{false, false}},
		{"running, not ready", []string{"main a startup readiness"}, "a running", yes, no, [2]bool{true, false}},
		{"running, started and ready", []string{"main a startup readiness"}, "a running", yes, yes, [2]bool{true, true}},
		{"exited", []string{"main a startup readiness"}, "a exited 0", yes, yes, [2]bool{false, false}},
		{"unknown", []string{"main a"}, "a unknown", yes, yes, [2]bool{false, false}},
		{"none", []string{"main a"}, "b running", yes, yes, [2]bool{false, false}},
		{"sidecar", []string{"side a startup readiness", "main b"}, "a running", yes, no, [2]bool{true, false}},
		{"init, running", []string{"init a", "main b"}, "a running", nil, nil, [2]bool{true, false}},
		{"init, complete", []string{"init a", "main b"}, "a exited 0", nil, nil, [2]bool{false, true}},
		{"init, failed", []string{"init a", "main b"}, "a exited 1", nil, nil, [2]bool{false, false}},
		{"init, out of memory", []string{"init a", "main b"}, "a exited 0 OOMKilled", nil, nil, [2]bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{Pod: podOf(t, always, c.pod...), Observed: seen(t, c.observed), Now: noon, Started: c.started, Ready: c.ready})
			a := statusOf(&out, "a")
			require.NotNil(t, a.Started)
			assert.Equal(t, c.want, [2]bool{*a.Started, a.Ready})
		})
	}
	t.Run("of this instance, not of the one before", func(t *testing.T) {
		in := Input{Pod: podOf(t, always, "main a startup readiness"), Observed: seen(t, "a running", "a exited 1"), Now: noon}
		in.Started = func(id runtime.ContainerID) bool { return id.ID == "a-0" }
		in.Ready = in.Started
		in.Previous = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", ContainerID: "test://a-0", Ready: true, Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-time.Hour))}},
		}}}
		out := Generate(in)
		assert.False(t, *out.ContainerStatuses[0].Started)
		assert.False(t, out.ContainerStatuses[0].Ready)
	})
	t.Run("an ephemeral container is neither", func(t *testing.T) {
		out := generate(podOf(t, always, "main b", "debug a"), seen(t, "a running"))
		assert.Nil(t, out.EphemeralContainerStatuses[0].Started)
		assert.False(t, out.EphemeralContainerStatuses[0].Ready)
	})
}

// The mounts of a container are in its status, also before it has started.
func TestVolumeMounts(t *testing.T) {
	pod := podOf(t, always, "main a")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "v", MountPath: "/v"},
		{Name: "w", MountPath: "/w", ReadOnly: true},
		{Name: "x", MountPath: "/x", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
		{Name: "y", MountPath: "/y", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyIfPossible)},
	}
	want := []v1.VolumeMountStatus{
		{Name: "v", MountPath: "/v"},
		{Name: "w", MountPath: "/w", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyDisabled)},
		{Name: "x", MountPath: "/x", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
		{Name: "y", MountPath: "/y", ReadOnly: true},
	}
	assert.Equal(t, want, generate(pod, nil).ContainerStatuses[0].VolumeMounts)
	assert.Equal(t, want, generate(pod, seen(t, "a running")).ContainerStatuses[0].VolumeMounts)
}
