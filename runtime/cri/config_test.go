// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

func TestSandboxConfig(t *testing.T) {
	pod := testPod("u1", "main")
	spec := sandboxSpecOf(pod)
	spec.Attempt, spec.LogDirectory = 3, "/logs/pod"
	spec.Labels = map[string]string{"app": "web", containermeta.LabelPodUID: "forged"}
	spec.Annotations = map[string]string{"a": "b"}
	opts := &Options{CgroupParent: func(p *v1.Pod) string { return "/pods/" + string(p.UID) }}
	got, err := sandboxConfig(spec, &api.DNSConfig{Servers: []string{"1.1.1.1"}}, nil, opts)
	require.NoError(t, err)
	assert.Equal(t, &api.PodSandboxMetadata{Name: "pod-u1", Namespace: "ns", Uid: "u1", Attempt: 3}, got.Metadata)
	assert.Equal(t, map[string]string{
		"app": "web", "io.kubernetes.pod.uid": "u1", "io.kubernetes.pod.name": "pod-u1", "io.kubernetes.pod.namespace": "ns",
	}, got.Labels, "whose it is cannot be forged")
	assert.Equal(t, map[string]string{"a": "b", "keelson.dev/hostname": "host"}, got.Annotations)
	assert.Equal(t, map[string]string{"a": "b"}, spec.Annotations, "the spec is not written")
	assert.Equal(t, "/logs/pod", got.LogDirectory)
	assert.Equal(t, "host", got.Hostname)
	assert.Equal(t, "/pods/u1", got.Linux.CgroupParent)

	spec.HostNetwork = true
	got, err = sandboxConfig(spec, nil, nil, &Options{})
	require.NoError(t, err)
	assert.Empty(t, got.Hostname, "the node's is shared: runtimes refuse another")
	assert.Equal(t, api.NamespaceMode_NODE, got.Linux.SecurityContext.NamespaceOptions.Network)
	assert.Empty(t, got.Linux.CgroupParent)
}

func TestPlainHostname(t *testing.T) {
	pod := testPod("u", "main")
	assert.Equal(t, "pod-u", plainHostname(pod))
	pod.Name = "a23456789-123456789-123456789-123456789-123456789-123456789-12-456"
	assert.Equal(t, "a23456789-123456789-123456789-123456789-123456789-123456789-12", plainHostname(pod))
	pod.Spec.Hostname = "web"
	assert.Equal(t, "web", plainHostname(pod))
	override := "whole.name"
	pod.Spec.HostnameOverride = &override
	assert.Equal(t, "whole.name", plainHostname(pod))
}

// config is a container's configuration in a plain sandbox.
func config(t *testing.T, spec runtime.ContainerSpec, f found) *api.ContainerConfig {
	t.Helper()
	sb, err := sandboxConfig(runtime.SandboxSpec{UID: spec.Pod.UID, Namespace: "ns", Name: spec.Pod.Name, LogDirectory: "/logs/pod", Pod: spec.Pod}, nil, nil, &Options{})
	require.NoError(t, err)
	f.sandbox = &sandbox{config: sb}
	f.image = &api.Image{Id: "sha256:1"}
	got, err := containerConfig(spec, f, &Options{})
	require.NoError(t, err)
	return got
}

func TestContainerConfig(t *testing.T) {
	pod := testPod("u1", "main")
	stop := v1.Signal("SIGRTMIN+3")
	c := &pod.Spec.Containers[0]
	c.Stdin, c.StdinOnce, c.TTY = true, true, true
	c.Lifecycle = &v1.Lifecycle{StopSignal: &stop}
	spec := containerSpecOf(pod, "main")
	spec.RestartCount, spec.LogPath, spec.WorkingDir = 7, "/logs/pod/main/7.log", "/work"
	spec.Command, spec.Args = []string{"a"}, []string{"b", "c"}
	spec.Env = []runtime.EnvVar{{Name: "X", Value: "1"}, {Name: "A", Value: ""}}
	got := config(t, spec, found{})
	assert.Equal(t, &api.ContainerMetadata{Name: "main", Attempt: 7}, got.Metadata)
	assert.Equal(t, &api.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "image"}, got.Image)
	assert.Equal(t, "main/7.log", got.LogPath)
	assert.Equal(t, "main", got.Labels["io.kubernetes.container.name"])
	assert.Equal(t, "u1", got.Labels["io.kubernetes.pod.uid"])
	assert.Equal(t, []*api.KeyValue{{Key: "X", Value: []byte("1")}, {Key: "A", Value: []byte("")}}, got.Envs)
	assert.True(t, got.Stdin && got.StdinOnce && got.Tty)
	assert.Equal(t, api.Signal_SIGNAL_SIGRTMINPLUS3, got.StopSignal)
	assert.Equal(t, []string{"a"}, got.Command)
	assert.Equal(t, []string{"b", "c"}, got.Args)
	assert.Equal(t, "/work", got.WorkingDir)
	assert.Equal(t, api.NamespaceMode_CONTAINER, got.Linux.SecurityContext.NamespaceOptions.Pid)
}

func TestGroupsOfVolumesAreAdded(t *testing.T) {
	pod := testPod("u1", "main")
	spec := containerSpecOf(pod, "main")
	spec.SupplementalGroups = []int64{7}
	assert.Equal(t, []int64{7}, config(t, spec, found{}).Linux.SecurityContext.SupplementalGroups)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{4000}}
	assert.Equal(t, []int64{4000, 7}, config(t, spec, found{}).Linux.SecurityContext.SupplementalGroups)
	assert.Equal(t, []int64{4000}, pod.Spec.SecurityContext.SupplementalGroups, "the pod is not written")
}

func TestLogPath(t *testing.T) {
	for _, tt := range []struct{ dir, path, want string }{
		{"/l", "/l/c/0.log", "c/0.log"}, {"/l", "", ""}, {"/l", "/m/0.log", "!"}, {"/l", "/l/../m", "!"}, {"", "/l/0.log", "!"},
	} {
		got, err := relativeLogPath(tt.dir, tt.path)
		if tt.want == "!" {
			assert.Error(t, err, tt)
		} else {
			assert.NoError(t, err, tt)
			assert.Equal(t, tt.want, got)
		}
	}
}

// The kubelet's annotations are read back for any writer. Our own annotation does not show.
func TestRecordRoundTrip(t *testing.T) {
	pod := testPod("u1", "main")
	spec := containerSpecOf(pod, "main")
	spec.Hash, spec.Annotations = "abc", map[string]string{containermeta.AnnotationHash: "abc", containermeta.AnnotationRestartCount: "4"}
	assert.Equal(t, spec.Annotations, annotations(spec))
	rest, hash, n := recordOf(annotations(spec), 9)
	assert.Equal(t, spec.Annotations, rest)
	assert.Equal(t, "abc", hash)
	assert.EqualValues(t, 4, n)
	spec.Annotations = map[string]string{"plain": "yes"}
	rest, hash, n = recordOf(annotations(spec), 9)
	assert.Equal(t, spec.Annotations, rest)
	assert.Equal(t, "abc", hash)
	assert.EqualValues(t, 9, n, "the attempt that is part of its name")
	for _, bad := range []string{"x", "-1", "99999999999"} {
		_, _, n = recordOf(map[string]string{containermeta.AnnotationRestartCount: bad}, 2)
		assert.EqualValues(t, 2, n)
	}
}
