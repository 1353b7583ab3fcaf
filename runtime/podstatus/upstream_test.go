// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Each test below shows that Generate does not have the fault of the kubelet reported under the
// number in its name.

// After a reboot a pod with init containers went on being shown as Running and
// Initialized while its init containers ran again.
func TestUpstream126650PendingAgainAfterReboot(t *testing.T) {
	reboot(t, podOf(t, always, "init i", "init j", "main a"), map[string][]string{
		"0 before":              {"sandbox s", "a running", "j exited 0", "i exited 0"},
		"1 rebooted":            {"sandbox s dead", "a exited 255", "j exited 0", "i exited 0"},
		"2 a new sandbox":       {"sandbox t", "sandbox s dead", "a exited 255 @s"},
		"3 the first init runs": {"sandbox t", "sandbox s dead", "i running =1", "a exited 255 @s"},
		"4 it has completed":    {"sandbox t", "sandbox s dead", "i exited 0 =1", "a exited 255 @s"},
		"5 the second runs":     {"sandbox t", "sandbox s dead", "j running =1", "i exited 0 =1", "a exited 255 @s"},
		"6 up":                  {"sandbox t", "sandbox s dead", "a running =1", "j exited 0 =1", "i exited 0 =1", "a exited 255 @s"},
	})
}

// The same where the purge of the old records had failed.
func TestUpstream127793PendingAgainWithOldRecords(t *testing.T) {
	reboot(t, podOf(t, always, "init i", "side j", "main a"), map[string][]string{
		"0 before":              {"sandbox s", "a running", "j running", "i exited 0"},
		"1 rebooted":            {"sandbox s dead", "a unknown", "j unknown", "i exited 0"},
		"2 a new sandbox":       {"sandbox t", "sandbox s dead", "a exited 137 @s", "j exited 137 @s", "i exited 0 @s"},
		"3 the first init runs": {"sandbox t", "sandbox s dead", "i running", "a exited 137 @s", "j exited 137 @s", "i exited 0 @s"},
		"4 it has completed":    {"sandbox t", "sandbox s dead", "i exited 0", "a exited 137 @s", "j exited 137 @s", "i exited 0 @s"},
		"6 up":                  {"sandbox t", "sandbox s dead", "a running", "j running", "i exited 0", "a exited 137 @s", "j exited 137 @s", "i exited 0 @s"},
	})
}

// When init is complete again, a pod whose container waits for its image, or in back-off, is Running: it has run before.
func TestRunningAgainWhileAContainerWaits(t *testing.T) {
	pod := podOf(t, always, "init i", "main a")
	previous := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a running", "i exited 0"), Now: noon})
	for _, step := range []struct {
		phase v1.PodPhase
		lines []string
	}{
		{pending, []string{"sandbox t", "sandbox s dead", "a exited 255 @s"}},
		{pending, []string{"sandbox t", "sandbox s dead", "i running =1", "a exited 255 @s"}},
		{running, []string{"sandbox t", "sandbox s dead", "i exited 0 =1", "a exited 255 @s"}},
		{running, []string{"sandbox t", "i exited 0 =1"}}, // without a record of a
	} {
		previous = Generate(Input{Pod: pod, Observed: seen(t, step.lines...), Previous: &previous, Now: noon})
		assert.Equal(t, step.phase, previous.Phase, "%v", step.lines)
		assert.Equal(t, step.phase == running, isTrue(previous.Conditions, v1.PodInitialized), "%v", step.lines)
	}
}

// reboot generates the statuses in the order of their names. The pod is Running
// and initialized in the first and last only.
func reboot(t *testing.T, pod *v1.Pod, steps map[string][]string) {
	t.Helper()
	var previous *v1.PodStatus
	for _, name := range []string{"0 before", "1 rebooted", "2 a new sandbox", "3 the first init runs", "4 it has completed",
		"5 the second runs", "6 up"} {
		lines, ok := steps[name]
		if !ok {
			continue
		}
		out := Generate(Input{Pod: pod, Observed: seen(t, lines...), Previous: previous, Now: noon})
		up := name[0] == '0' || name[0] == '6'
		want := map[bool]v1.PodPhase{true: running, false: pending}[up]
		assert.Equal(t, want, out.Phase, name)
		assert.Equal(t, up, isTrue(out.Conditions, v1.PodInitialized), name)
		assertSame(t, out, Generate(Input{Pod: pod, Observed: seen(t, lines...), Previous: &out, Now: noon}), name)
		previous = &out
	}
}

// A pod that had finished before the reboot has still finished: its init
// containers are not waited for.
func TestUpstream127793FinishedPodStaysFinished(t *testing.T) {
	pod := podOf(t, onFailure, "init i", "main a")
	out := generate(pod, seen(t, "sandbox s dead", "a exited 0", "i exited 0"))
	assert.Equal(t, succeeded, out.Phase)
}

// The kubelet exempts every init container that exited with 0 from waiting
// reasons, also sidecars, whose back-off is then not shown.
func TestSidecarBackOffIsShown(t *testing.T) {
	out := Generate(Input{Pod: podOf(t, always, "side s", "main a"), Observed: seen(t, "sandbox s", "a running", "s exited 0"),
		StartFailures: crashing("s"), Now: noon})
	assert.Equal(t, "waiting CrashLoopBackOff, last terminated Completed 0 s-0", show(statusOf(&out, "s")))
}

// An exit is reported with its true code even if the record was collected before the API server
// received the exit: the previous status keeps the code.
func TestUpstream104107ExitCodeSurvivesItsRecord(t *testing.T) {
	pod := podOf(t, never, "main a")
	first := generate(pod, seen(t, "sandbox s", "a exited 0"))
	out := Generate(Input{Pod: pod, Observed: &runtime.PodStatus{}, Previous: &first, Now: noon})
	assert.Equal(t, "terminated Completed 0 a-0", show(statusOf(&out, "a")))
	assert.Equal(t, succeeded, out.Phase)
}
