// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

func ExampleDefaultGenerator() {
	g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: "/var/log/pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := podNamed("default", "web", "u-1")
	pod.Spec.Containers = []v1.Container{{
		Name: "main",
		Env: []v1.EnvVar{
			{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "GREETING", Value: "hello from $(POD)"},
		},
		Command: []string{"echo", "$(GREETING)"},
	}}
	spec, _, err := g.Container(context.Background(), pod, Ref{Group: GroupRegular, Index: 0}, ContainerInput{RestartCount: 2})
	fmt.Println(spec.Command, spec.LogPath, err)
	// Output:
	// [echo hello from web] /var/log/pods/default_web_u-1/main/2.log <nil>
}

// podOf is a pod with these regular containers.
func podOf(containers ...v1.Container) *v1.Pod {
	pod := podNamed("ns", "web", "u-1")
	pod.Spec.Containers = containers
	return pod
}

func newGenerator(t *testing.T, opts DefaultGeneratorOptions) *DefaultGenerator {
	t.Helper()
	opts.LogRoot = "/var/log/pods"
	g, err := NewDefaultGenerator(opts)
	require.NoError(t, err)
	return g
}

func TestNewDefaultGeneratorNamesTheBadField(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		opts       DefaultGeneratorOptions
	}{
		{"no root", `runtime: DefaultGeneratorOptions.LogRoot: "" is not absolute`, DefaultGeneratorOptions{}},
		{"relative root", `runtime: DefaultGeneratorOptions.LogRoot: "logs" is not absolute`, DefaultGeneratorOptions{LogRoot: "logs"}},
		{"bad address", `runtime: DefaultGeneratorOptions.HostIPs: ["10.0.0.1" "x"] are not all IP addresses`, DefaultGeneratorOptions{LogRoot: "/l", HostIPs: []string{"10.0.0.1", "x"}}},
		{"negative", `runtime: DefaultGeneratorOptions.Allocatable: cpu is negative`, DefaultGeneratorOptions{LogRoot: "/l", Allocatable: amounts("cpu", "-1")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, err := NewDefaultGenerator(tc.opts)
			require.EqualError(t, err, tc.want)
			assert.Nil(t, g)
		})
	}
}

func TestNewDefaultGeneratorKeepsItsOwnOptions(t *testing.T) {
	ips, allocatable := []string{"10.0.0.1"}, amounts("cpu", "2")
	g := newGenerator(t, DefaultGeneratorOptions{HostIPs: ips, Allocatable: allocatable})
	ips[0] = "10.9.9.9"
	delete(allocatable, v1.ResourceCPU)
	spec, _, err := g.Container(t.Context(), podOf(v1.Container{Name: "c", Env: []v1.EnvVar{
		{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
		{Name: "CPU", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}},
	}}), Ref{}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, []EnvVar{{"IP", "10.0.0.1"}, {"CPU", "2"}}, spec.Env)
}

func TestSandboxSpec(t *testing.T) {
	pod := podOf()
	pod.Labels = map[string]string{"app": "web", containermeta.LabelPodUID: "forged"}
	pod.Annotations = map[string]string{"note": "hi"}
	before := pod.DeepCopy()
	spec, err := newGenerator(t, DefaultGeneratorOptions{}).Sandbox(t.Context(), pod, 4)
	require.NoError(t, err)
	assert.Equal(t, SandboxSpec{
		UID: "u-1", Namespace: "ns", Name: "web", Attempt: 4, Hostname: "web",
		LogDirectory: "/var/log/pods/ns_web_u-1",
		Labels: map[string]string{
			"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u-1",
		},
		Annotations: map[string]string{"note": "hi"},
		Pod:         pod,
	}, spec)
	spec.Labels["app"], spec.Annotations["note"] = "changed", "changed"
	assert.Equal(t, before, pod, "the maps belong to the receiver")

	pod.Spec.HostNetwork = true
	spec, err = newGenerator(t, DefaultGeneratorOptions{}).Sandbox(t.Context(), pod, 0)
	require.NoError(t, err)
	assert.True(t, spec.HostNetwork)
	assert.Empty(t, spec.Hostname)
}

func TestSandboxErrors(t *testing.T) {
	g := newGenerator(t, DefaultGeneratorOptions{})
	_, err := g.Sandbox(t.Context(), podNamed("ns", "../x", "u"), 0)
	require.ErrorContains(t, err, "metadata.name: ")
	pod := podOf()
	pod.Spec.Hostname = "_"
	_, err = g.Sandbox(t.Context(), pod, 0)
	require.ErrorContains(t, err, "spec.hostname: ")
}

func TestContainerSpecOfEveryGroup(t *testing.T) {
	pod := podOf(v1.Container{Name: "a"}, v1.Container{
		Name: "main", Image: "registry/app:1", WorkingDir: "/srv",
		Env:     []v1.EnvVar{{Name: "N", Value: "7"}},
		Command: []string{"run", "-n", "$(N)"},
		Args:    []string{"$$(N)", "$(M)"},
	})
	pod.Spec.InitContainers = []v1.Container{{Name: "setup"}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	before := pod.DeepCopy()
	g := newGenerator(t, DefaultGeneratorOptions{})

	ref := Ref{GroupRegular, 1}
	in := ContainerInput{RestartCount: 3, Hash: "5f", RestartDelay: time.Minute}
	spec, cleanup, err := g.Container(t.Context(), pod, ref, in)
	require.NoError(t, err)
	assert.Nil(t, cleanup)
	annotations, err := containerAnnotations(pod, ref.Container(pod), in)
	require.NoError(t, err)
	assert.Equal(t, ContainerSpec{
		Name: "main", Group: GroupRegular, RestartCount: 3, Hash: "5f", Image: "registry/app:1",
		Command: []string{"run", "-n", "7"}, Args: []string{"$(N)", "$(M)"},
		Env:        []EnvVar{{"N", "7"}},
		WorkingDir: "/srv",
		LogPath:    "/var/log/pods/ns_web_u-1/main/3.log",
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u-1", "io.kubernetes.container.name": "main",
		},
		Annotations: annotations,
		Pod:         pod, Container: &pod.Spec.Containers[1],
	}, spec)

	for ref, name := range map[Ref]string{{GroupRegular, 0}: "a", {GroupInit, 0}: "setup", {GroupEphemeral, 0}: "debug"} {
		spec, _, err := g.Container(t.Context(), pod, ref, ContainerInput{})
		require.NoError(t, err)
		assert.Equal(t, name, spec.Name)
		assert.Equal(t, ref.Group, spec.Group)
		assert.Nil(t, spec.Command)
		assert.Same(t, ref.Container(pod), spec.Container)
	}
	assert.Equal(t, before, pod, "the pod is not written")
}

func TestContainerErrorsBeginWithTheField(t *testing.T) {
	pod := podOf(v1.Container{Name: "../../etc"}, v1.Container{Name: "c", Env: []v1.EnvVar{{Name: "A"}, {Name: "B"},
		{Name: "C", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.phase"}}}}})
	pod.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{{Name: "data"}, {Name: "tmp"}}}}
	for ref, want := range map[Ref]string{
		{GroupRegular, 0}:   `spec.containers[0].name: "../../etc" is no file name`,
		{GroupRegular, 1}:   `spec.containers[1].env[2].valueFrom.fieldRef: unsupported fieldPath "status.phase"`,
		{GroupRegular, 2}:   `the pod has no spec.containers[2]`,
		{GroupInit, 0}:      `spec.initContainers[0].volumeMounts: this node has no volumes, so it cannot mount "data", "tmp"`,
		{GroupInit, -1}:     `the pod has no spec.initContainers[-1]`,
		{GroupEphemeral, 0}: `the pod has no spec.ephemeralContainers[0]`,
	} {
		spec, cleanup, err := newGenerator(t, DefaultGeneratorOptions{}).Container(t.Context(), pod, ref, ContainerInput{})
		require.EqualError(t, err, want)
		assert.Zero(t, spec)
		assert.Nil(t, cleanup)
	}
	_, _, err := newGenerator(t, DefaultGeneratorOptions{}).Container(t.Context(), podNamed("", "x", "u"), Ref{}, ContainerInput{})
	require.EqualError(t, err, "the pod has no spec.containers[0]")
	bad := podOf(v1.Container{Name: "c"})
	bad.UID = "a/b"
	_, _, err = newGenerator(t, DefaultGeneratorOptions{}).Container(t.Context(), bad, Ref{}, ContainerInput{})
	require.EqualError(t, err, `metadata.uid: "a/b" is no file name`)
}

func TestVolumesAreAskedForEveryContainer(t *testing.T) {
	pod := podOf(v1.Container{Name: "bare"}, v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}})
	mounts := []Mount{{Name: "data", HostPath: "/srv/data", ContainerPath: "/data", ReadOnly: true}}
	var asked []string
	g := newGenerator(t, DefaultGeneratorOptions{Volumes: func(_ context.Context, p *v1.Pod, c *v1.Container) ([]Mount, error) {
		assert.Same(t, pod, p)
		asked = append(asked, c.Name)
		if len(c.VolumeMounts) == 0 {
			return nil, nil
		}
		return mounts, nil
	}})
	for i, want := range [][]Mount{nil, mounts} {
		spec, _, err := g.Container(t.Context(), pod, Ref{GroupRegular, i}, ContainerInput{})
		require.NoError(t, err)
		assert.Equal(t, want, spec.Mounts)
	}
	assert.Equal(t, []string{"bare", "c"}, asked)

	broken := errors.New(`"data" is not mounted`)
	g = newGenerator(t, DefaultGeneratorOptions{Volumes: func(context.Context, *v1.Pod, *v1.Container) ([]Mount, error) { return nil, broken }})
	_, _, err := g.Container(t.Context(), pod, Ref{GroupRegular, 1}, ContainerInput{})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, `spec.containers[1].volumeMounts: "data" is not mounted`)
}

// The error of a mount shows neither the values of variables nor a subPathExpr that was expanded with
// them.
func TestErrorsOfMountsShowNoValues(t *testing.T) {
	pod := podOf(v1.Container{
		Name: "c", Env: []v1.EnvVar{{Name: "TOKEN", Value: "hunter2"}, {Name: "PIN", Value: "47"}},
		VolumeMounts: []v1.VolumeMount{
			{Name: "data", MountPath: "/data", SubPathExpr: "of/$(PIN)"}, {Name: "data", MountPath: "/more", SubPathExpr: "$(TOKEN)/x"}, {Name: "data", MountPath: "/plain", SubPath: "y"},
		},
	})
	g := newGenerator(t, DefaultGeneratorOptions{Volumes: func(_ context.Context, _ *v1.Pod, c *v1.Container) ([]Mount, error) {
		var paths []string
		for _, m := range c.VolumeMounts {
			paths = append(paths, m.SubPath)
		}
		return nil, fmt.Errorf("no folders %s", strings.Join(paths, " "))
	}})
	_, _, err := g.Container(t.Context(), pod, Ref{}, ContainerInput{})
	require.ErrorContains(t, err, "no folders ")
	assert.NotContains(t, err.Error(), "hunter2")
	assert.NotContains(t, err.Error(), "47")
	assert.Contains(t, err.Error(), " y")
}

// Groups of volumes are known when the volumes are.
func TestGroupsOfVolumesReachTheContainer(t *testing.T) {
	pod, mounted := podOf(v1.Container{Name: "c"}), false
	g := newGenerator(t, DefaultGeneratorOptions{
		Volumes: func(context.Context, *v1.Pod, *v1.Container) ([]Mount, error) {
			mounted = true
			return nil, nil
		},
		Groups: func(p *v1.Pod) []int64 {
			assert.Same(t, pod, p)
			assert.True(t, mounted)
			return []int64{7, 12}
		},
	})
	spec, _, err := g.Container(t.Context(), pod, Ref{}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, []int64{7, 12}, spec.SupplementalGroups)
	spec, _, err = newGenerator(t, DefaultGeneratorOptions{}).Container(t.Context(), pod, Ref{}, ContainerInput{})
	require.NoError(t, err)
	assert.Empty(t, spec.SupplementalGroups)
}

// Extend has the last word about a spec, and may refuse the container.
func TestExtend(t *testing.T) {
	g := newGenerator(t, DefaultGeneratorOptions{Extend: func(_ context.Context, pod *v1.Pod, c *v1.Container, spec *ContainerSpec) error {
		if c.Name == "bad" {
			return errors.New("no such device")
		}
		spec.Env = append(spec.Env, EnvVar{Name: "DEVICE", Value: pod.Name + c.Name + spec.Name})
		return nil
	}})
	pod := podOf(v1.Container{Name: "good"}, v1.Container{Name: "bad"})
	spec, _, err := g.Container(t.Context(), pod, Ref{GroupRegular, 0}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, []EnvVar{{Name: "DEVICE", Value: "webgoodgood"}}, spec.Env)
	_, _, err = g.Container(t.Context(), pod, Ref{GroupRegular, 1}, ContainerInput{})
	require.ErrorContains(t, err, "no such device")
}

// The addresses of a pod are needed before its start if a variable of any container has them.
func TestUsesAddresses(t *testing.T) {
	g := newGenerator(t, DefaultGeneratorOptions{})
	variable := func(field string) v1.Container {
		return v1.Container{Name: "c", Env: []v1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: field}}}}}
	}
	plain, uses := variable("metadata.name"), variable("status.podIPs")
	secret := v1.Container{Name: "c", Env: []v1.EnvVar{{Name: "C", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}}}}
	debug := podOf(plain)
	debug.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(uses)}}
	early := podOf(plain)
	early.Spec.InitContainers = []v1.Container{secret, uses}
	for want, pods := range map[bool][]*v1.Pod{
		true:  {podOf(plain, uses), podOf(variable("status.podIP")), debug, early},
		false: {podOf(), podOf(plain, secret), podOf(variable("status.hostIP"))},
	} {
		for i, pod := range pods {
			assert.Equal(t, want, g.UsesAddresses(pod), i)
		}
	}
}

func TestDefaultGeneratorIsSafeForConcurrentUse(t *testing.T) {
	pod := podOf(v1.Container{Name: "c", Command: []string{"$(CPU)"}, Env: []v1.EnvVar{
		{Name: "IPS", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIPs"}}},
		{Name: "CPU", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}},
	}})
	g := newGenerator(t, DefaultGeneratorOptions{HostIPs: []string{"10.0.0.1"}, Allocatable: amounts("cpu", "3500m")})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				spec, _, err := g.Container(t.Context(), pod, Ref{}, ContainerInput{PodIPs: []string{"fd00::7", "10.1.0.7"}})
				assert.NoError(t, err)
				assert.Equal(t, []EnvVar{{"IPS", "10.1.0.7,fd00::7"}, {"CPU", "4"}}, spec.Env)
				_, err = g.Sandbox(t.Context(), pod, 0)
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkDefaultGeneratorContainer(b *testing.B) {
	g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: "/var/log/pods"})
	require.NoError(b, err)
	c := v1.Container{Name: "main", Command: []string{"run", "--port=$(PORT)"}, Env: []v1.EnvVar{{Name: "PORT", Value: "80"}}}
	for i := range 18 {
		c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: "http://host:$(PORT)/"})
	}
	pod := podOf(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := g.Container(b.Context(), pod, Ref{}, ContainerInput{}); err != nil {
			b.Fatal(err)
		}
	}
}
