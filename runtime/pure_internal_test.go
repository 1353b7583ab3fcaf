// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// The values of all variables are secret, except the pod's own fields and resources, and Services.
func TestSecretVariables(t *testing.T) {
	c := &v1.Container{Env: []v1.EnvVar{
		{Name: "literal", Value: "s1-literal"},
		{Name: "field", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}},
		{Name: "resource", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{}}},
		{Name: "key", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}},
	}}
	from := c.DeepCopy()
	from.EnvFrom = make([]v1.EnvFromSource, 1)
	for _, tc := range []struct {
		name      string
		container *v1.Container
		secret    bool
	}{
		{"literal", c, true}, {"field", c, false}, {"resource", c, false}, {"key", c, true}, {"other", c, false}, {"other", from, true}, {"field", nil, true},
	} {
		if tc.container != nil {
			assert.Equal(t, tc.secret, isSecretVariable(tc.container, tc.name), tc.name)
		}
		value := "value-of-" + tc.name
		shown := secretVariables(tc.container, []EnvVar{{Name: "first", Value: "value-of-first"}, {Name: tc.name, Value: value}}).Text("it says " + value)
		assert.Equal(t, !tc.secret, strings.Contains(shown, value), "%s: %s", tc.name, shown)
	}
}

// The words of command and args that contain values of variables are secret, too.
func TestSecretsOfWords(t *testing.T) {
	spec := &ContainerSpec{
		Container: &v1.Container{Command: []string{"run", "$(A)-tool", "left-over"}, Args: []string{"plain", "--key=$(A)"}},
		Command:   []string{"run", "canary1-tool"}, Args: []string{"plain", "--key=canary1"},
	}
	shown := secretsOf(spec).Text("cannot run canary1-tool with plain and --key=canary1")
	assert.NotContains(t, shown, "canary1")
	assert.Contains(t, shown, "plain")
	assert.Equal(t, "x", secretsOf(&ContainerSpec{}).Text("x"))
}

// Only runtime://id with both parts is a container ID.
func TestParseContainerID(t *testing.T) {
	for text, want := range map[string]ContainerID{"": {}, "fake://1": {Runtime: "fake", ID: "1"}, "a://b://c": {Runtime: "a", ID: "b://c"}} {
		got, err := ParseContainerID(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"1", "fake://", "://1", "://", "fake:/1"} {
		_, err := ParseContainerID(text)
		assert.Error(t, err, text)
	}
}

// An instance in an unknown state failed, and an instance that runs did not.
func TestFailedInstances(t *testing.T) {
	for _, tc := range []struct {
		c    ContainerStatus
		want bool
	}{
		{ContainerStatus{State: StateUnknown}, true}, {ContainerStatus{State: StateRunning, ExitCode: 1}, false}, {ContainerStatus{State: StateExited}, false},
		{ContainerStatus{State: StateExited, ExitCode: 1}, true}, {ContainerStatus{State: StateExited, Reason: ReasonOOMKilled}, true},
	} {
		assert.Equal(t, tc.want, tc.c.Failed(), "%v", tc.c)
	}
}

// After StopSandbox no sandbox of the copy is ready, and the original stays.
func TestWithoutReadySandbox(t *testing.T) {
	s := &PodStatus{UID: "u", Sandboxes: []SandboxStatus{{ID: "2", Ready: true}, {ID: "1", Ready: true}}}
	stopped := s.withoutReadySandbox()
	assert.Equal(t, &PodStatus{UID: "u", Sandboxes: []SandboxStatus{{ID: "2"}, {ID: "1"}}}, stopped)
	assert.True(t, s.Sandboxes[0].Ready && s.Sandboxes[1].Ready)
	assert.Nil(t, s.addressesOf(&ContainerStatus{Sandbox: "3"}), "the record of the sandbox is gone")
}

// Each wrong reference has its own words.
func TestImagesThatAreNoReferences(t *testing.T) {
	long := strings.Repeat("a", 255)
	for image, want := range map[string]string{
		"":                      "the image has no name",
		"docker://web":          "a reference has no scheme",
		strings.Repeat("a", 64): "an ID is no reference",
		"Web/Front:1":           "repository name (Web/Front) must be lowercase",
		"-web":                  "want [registry/]name[:tag][@digest]",
		long + "a":              "the name is longer than 255 characters",
		long + "a:1":            "the name is longer than 255 characters",
	} {
		_, err := NormalizeImage(image)
		assert.ErrorContains(t, err, want, image)
	}
	got, err := NormalizeImage(long)
	assert.NoError(t, err)
	assert.Equal(t, long+":latest", got)
}

// A path element has no control character, and at most as many bytes as a file name.
func TestPathElements(t *testing.T) {
	for _, s := range []string{"", ".", "..", "a/b", `a\b`, "a\x1fb", "a\x7fb", "a\x00"} {
		assert.Error(t, checkPathElement(s), "%q", s)
	}
	for _, s := range []string{"a", "a b", "a.b", "..a", "é"} {
		assert.NoError(t, checkPathElement(s), "%q", s)
	}
	_, err := containerLogDir("/logs", strings.Repeat("a", maxFileName))
	assert.NoError(t, err)
	_, err = containerLogDir("/logs", strings.Repeat("a", maxFileName+1))
	assert.ErrorContains(t, err, "has 256 bytes, a directory's name takes 255")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u", Name: strings.Repeat("a", maxFileName-len("ns__u"))}}
	_, err = podLogDir("/logs", pod)
	assert.NoError(t, err)
	pod.Name += "a"
	_, err = podLogDir("/logs", pod)
	assert.Error(t, err)
	assert.Zero(t, nextRestartCount(t.TempDir()+"/missing"))
}

// Defaults replace what is not positive, and the first delay is never above the longest.
func TestBackoffDefaults(t *testing.T) {
	standard := Backoff{Initial: 10 * time.Second, Max: 300 * time.Second, Reset: 600 * time.Second}
	assert.Equal(t, standard, Backoff{}.withDefaults())
	assert.Equal(t, standard, Backoff{-1, -1, -1}.withDefaults())
	assert.Equal(t, Backoff{1, 5, 1}, Backoff{1, 5, 1}.withDefaults())
	assert.Equal(t, Backoff{1, 1, 1}, Backoff{1, 1, 1}.withDefaults())
	assert.Equal(t, Backoff{2, 2, 3}, Backoff{5, 2, 3}.withDefaults())
}

// An annotation that is no delay counts as none.
func TestRestartDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "soon": 0, "-1s": 0, "1ns": 1, "20s": 20 * time.Second, "1sx": 0} {
		assert.Equal(t, want, restartDelay(&ContainerStatus{Annotations: map[string]string{annotationRestartDelay: text}}), text)
	}
}

// The end seen last of a container counts, unless the container only was made, or restarts.
func TestLastSeen(t *testing.T) {
	c := &v1.Container{Name: "c"}
	pod := func(policy v1.RestartPolicy) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}} }
	never, always := pod(v1.RestartPolicyNever), pod(v1.RestartPolicyAlways)
	for _, newest := range []*ContainerStatus{nil, {State: StateCreated}} {
		_, counts := lastSeen(never, c, newest)
		assert.False(t, counts)
	}
	seen, counts := lastSeen(never, c, &ContainerStatus{State: StateExited, ExitCode: 3})
	assert.True(t, counts)
	assert.Equal(t, ContainerStatus{State: StateExited, ExitCode: 3}, seen)
	assert.True(t, finishedBy(never, c, &seen, &ContainerStatus{}), "its successor only was made")
	assert.False(t, finishedBy(always, c, &seen, nil))
	seen, counts = lastSeen(never, c, &ContainerStatus{Name: "c", State: StateRunning})
	assert.True(t, counts)
	assert.Equal(t, ContainerStatus{Name: "c", State: StateUnknown, ExitCode: 137, Reason: reasonStatusUnknown}, seen)
	assert.True(t, finishedBy(never, c, &seen, nil))
	assert.False(t, finishedBy(never, c, &seen, &ContainerStatus{}), "the end is not known")
	_, counts = lastSeen(always, c, &ContainerStatus{State: StateRunning})
	assert.False(t, counts)
}

// The grace period of an unknown pod is the longest of its running containers, and at least a second.
func TestGracePeriodOfAnUnknownPod(t *testing.T) {
	with := func(state State, seconds string) ContainerStatus {
		return ContainerStatus{State: state, Annotations: map[string]string{containermeta.AnnotationTerminationGrace: seconds}}
	}
	assert.Equal(t, minGracePeriod, (&PodStatus{}).GracePeriod())
	s := &PodStatus{Containers: []ContainerStatus{with(StateRunning, "7"), with(StateRunning, "40"), with(StateExited, "90"), with(StateUnknown, "5")}}
	assert.Equal(t, 40*time.Second, s.GracePeriod())
}

// The life of an instance begins with its start, or with its creation if the start is unknown.
func TestLifeOfAnInstance(t *testing.T) {
	ended := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	delay := map[string]string{annotationRestartDelay: "20s"}
	for name, c := range map[string]ContainerStatus{
		"no start": {CreatedAt: ended.Add(-time.Second)}, "a late start": {CreatedAt: ended.Add(-time.Hour), StartedAt: ended.Add(-time.Second)},
	} {
		c.State, c.FinishedAt, c.Annotations = StateExited, ended, delay
		assert.Equal(t, restart{At: ended.Add(20 * time.Second), Wait: 20 * time.Second, Delay: 40 * time.Second}, Backoff{}.next(&c, "", ended), name)
	}
}

// A container that runs according to the status and has no record was killed: its exit code is 137.
func TestFinishedWithoutARecord(t *testing.T) {
	running := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "c"}}}}
	assert.False(t, Finished(pod, running, "c", nil))
	c := &pod.Spec.Containers[0]
	c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	assert.True(t, Finished(pod, running, "c", nil))
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{137}},
	}}
	assert.False(t, Finished(pod, running, "c", nil))
}

// Seconds below zero are none.
func TestInSeconds(t *testing.T) {
	for n, want := range map[int64]time.Duration{-5: 0, 0: 0, 1: time.Second} {
		assert.Equal(t, want, inSeconds(n))
	}
}
