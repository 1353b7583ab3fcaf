// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func pointer[T any](v T) *T { return &v }

func TestMounts(t *testing.T) {
	pod := testPod("u1", "main")
	c := &pod.Spec.Containers[0]
	c.SecurityContext = &v1.SecurityContext{Privileged: pointer(true)}
	c.VolumeMounts = []v1.VolumeMount{
		{Name: "a", MountPath: "/a/", MountPropagation: pointer(v1.MountPropagationHostToContainer)},
		{Name: "a", MountPath: "/b", MountPropagation: pointer(v1.MountPropagationBidirectional)},
		{Name: "ro", MountPath: "/ro", RecursiveReadOnly: pointer(v1.RecursiveReadOnlyIfPossible), ReadOnly: true},
	}
	spec := containerSpecOf(pod, "main")
	spec.Mounts = []runtime.Mount{
		{Name: "a", HostPath: "/h/a", ContainerPath: "/a"}, {Name: "a", HostPath: "/h/a", ContainerPath: "/b"},
		{Name: "ro", HostPath: "/h/ro", ContainerPath: "/ro", ReadOnly: true},
		{Name: "extra", HostPath: "/h/x", ContainerPath: "/x", SELinuxRelabel: true},
	}
	f := found{hosts: "/files/etc-hosts", message: "/files/msg", capabilities: Handler{RecursiveReadOnlyMounts: true}}
	want := []*api.Mount{
		{HostPath: "/h/a", ContainerPath: "/a", Propagation: api.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{HostPath: "/h/a", ContainerPath: "/b", Propagation: api.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		{HostPath: "/h/ro", ContainerPath: "/ro", Readonly: true, RecursiveReadOnly: true},
		{HostPath: "/h/x", ContainerPath: "/x", SelinuxRelabel: true},
		{HostPath: "/files/etc-hosts", ContainerPath: "/etc/hosts"}, {HostPath: "/files/msg", ContainerPath: "/dev/termination-log"},
	}
	assert.Equal(t, want, config(t, spec, f).Mounts)
	f.capabilities = Handler{}
	assert.False(t, config(t, spec, f).Mounts[2].RecursiveReadOnly, "only if possible")

	c.TerminationMessagePath = "/last/words"
	assert.Equal(t, "/last/words", config(t, spec, f).Mounts[5].ContainerPath)
	spec.Mounts = []runtime.Mount{{ContainerPath: "/etc/hosts/"}, {ContainerPath: "/last//words"}}
	assert.Len(t, config(t, spec, f).Mounts, 2, "what the pod mounts there itself wins")
}

func TestMountsThatMakeNoSense(t *testing.T) {
	handler := Handler{RecursiveReadOnlyMounts: true}
	images := map[string]*api.Image{"here:1": {Id: "sha256:1"}, "absent:1": nil}
	for _, tt := range []struct {
		name  string
		mount runtime.Mount
		v     v1.VolumeMount
		want  string
	}{
		{"both ways without privilege", runtime.Mount{HostPath: "/h"}, v1.VolumeMount{MountPropagation: pointer(v1.MountPropagationBidirectional)},
			"volumeMounts[0].mountPropagation: Bidirectional is for privileged containers"},
		{"an unknown propagation", runtime.Mount{HostPath: "/h"}, v1.VolumeMount{MountPropagation: pointer(v1.MountPropagationMode("odd"))},
			`volumeMounts[0].mountPropagation: "odd" is not known`},
		{"recursively read-only and not read-only", runtime.Mount{HostPath: "/h"}, v1.VolumeMount{RecursiveReadOnly: pointer(v1.RecursiveReadOnlyEnabled)},
			"volumeMounts[0].recursiveReadOnly: the mount is not read-only"},
		{"so if possible, and not read-only", runtime.Mount{HostPath: "/h"}, v1.VolumeMount{RecursiveReadOnly: pointer(v1.RecursiveReadOnlyIfPossible)},
			"volumeMounts[0].recursiveReadOnly: the mount is not read-only"},
		{"recursively read-only and not private", runtime.Mount{HostPath: "/h", ReadOnly: true}, v1.VolumeMount{
			RecursiveReadOnly: pointer(v1.RecursiveReadOnlyEnabled), MountPropagation: pointer(v1.MountPropagationHostToContainer),
		}, "volumeMounts[0].recursiveReadOnly: the mount has a mountPropagation"},
		{"an unknown word", runtime.Mount{HostPath: "/h", ReadOnly: true}, v1.VolumeMount{RecursiveReadOnly: pointer(v1.RecursiveReadOnlyMode("odd"))},
			`volumeMounts[0].recursiveReadOnly: "odd" is not known`},
		{"a path and an image", runtime.Mount{HostPath: "/h", Image: "here:1"}, v1.VolumeMount{}, "volumeMounts[0]: want a path of the node or an image, not both"},
		{"an image that is not there", runtime.Mount{Image: "absent:1"}, v1.VolumeMount{}, `volumeMounts[0]: image "absent:1" is not on the node`},
		{"out of the image", runtime.Mount{Image: "here:1", ImageSubPath: "../x"}, v1.VolumeMount{}, "the path in the image is not relative, or leaves it"},
		{"from the root", runtime.Mount{Image: "here:1", ImageSubPath: "/x"}, v1.VolumeMount{}, "the path in the image is not relative, or leaves it"},
		{"a propagated image", runtime.Mount{Image: "here:1"}, v1.VolumeMount{MountPropagation: pointer(v1.MountPropagationHostToContainer)}, "an image's mount is private"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.mount.Name, tt.mount.ContainerPath, tt.v.Name, tt.v.MountPath = "vol", "/m", "vol", "/m"
			_, err := mount(tt.mount, &v1.Container{VolumeMounts: []v1.VolumeMount{tt.v}}, found{capabilities: handler, volumeImages: images})
			assert.ErrorContains(t, err, tt.want)
		})
	}
	_, err := mount(runtime.Mount{Name: "extra", Image: "absent:1"}, &v1.Container{}, found{})
	assert.ErrorContains(t, err, "mount extra: ", "one without a volumeMount")
}

func TestImageMount(t *testing.T) {
	f := found{volumeImages: map[string]*api.Image{"here:1": {Id: "sha256:1"}}}
	got, err := mount(runtime.Mount{Name: "vol", Image: "here:1", ImageSubPath: "a/b", ContainerPath: "/m", SELinuxRelabel: true}, &v1.Container{}, f)
	require.NoError(t, err)
	assert.Equal(t, &api.Mount{
		ContainerPath: "/m", Readonly: true, ImageSubPath: "a/b", Image: &api.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "here:1"},
	}, got)
}

func TestImageVolumesByVersion(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		whole, parts  bool
	}{
		{"containerd", "1.6.20~ds1", false, false}, {"containerd", "v2.0.9", false, false}, {"containerd", "2.1.0", true, false},
		{"containerd", "v2.4.2", true, true}, {"containerd", "3.0", true, true}, {"containerd", "garbage", false, false},
		{"cri-o", "1.30.1", false, false}, {"cri-o", "1.31.0", true, false}, {"cri-o", "1.36.0", true, true}, {"else", "9.9", false, false},
	} {
		whole, parts := imageVolumes(tt.name, tt.version)
		assert.Equal(t, []bool{tt.whole, tt.parts}, []bool{whole, parts}, tt)
	}
}

func TestRefusedFields(t *testing.T) {
	pod := testPod("u1", "main")
	none := &Options{}
	assert.Empty(t, refusedFields(pod, none, Info{}))
	pod.Spec.HostUsers = pointer(false)
	pod.Spec.OS = &v1.PodOS{Name: v1.Windows}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: pointer(v1.SupplementalGroupsPolicyStrict)}
	pod.Spec.RuntimeClassName = pointer("kata")
	pod.Spec.Volumes = []v1.Volume{{Name: "img", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "x:1"}}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{RecursiveReadOnly: pointer(v1.RecursiveReadOnlyEnabled)}, {Name: "img", SubPath: "a"}}
	pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	assert.Len(t, refusedFields(pod, none, Info{}), 7)
	opts := &Options{RuntimeHandlers: map[string]string{"kata": "kata-qemu"}, UserNamespaces: func(*v1.Pod) (IDMapping, error) { return IDMapping{}, nil }}
	info := Info{SupplementalGroupsPolicy: true, ImageVolumes: true, Handlers: map[string]Handler{"": {}, "kata-qemu": {RecursiveReadOnlyMounts: true}}}
	assert.Equal(t, []string{
		"spec.containers[0].resources.claims (no part of this node allocates devices)",
		"spec.containers[0].volumeMounts[1].subPath (this runtime mounts whole images only)",
		"spec.hostUsers (this runtime has no user namespaces)", "spec.os.name (the node's is linux)",
	}, refusedFields(pod, opts, info))
	delete(info.Handlers, "kata-qemu")
	assert.Contains(t, refusedFields(pod, opts, info), "spec.runtimeClassName (the runtime has no handler of that class)")
}

// A field without a CRI equivalent is refused, not silently dropped.
func TestFieldsWithoutAWordInTheCRIAreRefused(t *testing.T) {
	pod := testPod("u1", "main")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "a", MountPath: "/a"}, {Name: "b", MountPath: "/b", BindMountOptions: []string{"nosuid"}}}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	pod.Spec.Resources = &v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}}
	assert.Equal(t, []string{
		"spec.containers[0].volumeMounts[1].bindMountOptions (the CRI has no word for them)",
		"spec.resourceClaims (no part of this node allocates devices)",
		"spec.resources.claims (no part of this node allocates devices)",
	}, refusedFields(pod, &Options{}, Info{}))
}

// A pod with a profile by an old annotation, or with a Windows feature, is refused.
func TestOldAnnotationsAndWindowsOptionsAreRefused(t *testing.T) {
	pod := testPod("u1", "main", "side")
	pod.Annotations = map[string]string{
		"seccomp.security.alpha.kubernetes.io/pod": "runtime/default", "container.seccomp.security.alpha.kubernetes.io/main": "runtime/default",
		"container.apparmor.security.beta.kubernetes.io/main": "runtime/default", // is honoured
	}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{HostProcess: pointer(true)}}
	pod.Spec.Containers[1].SecurityContext = &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{HostProcess: pointer(true)}}
	assert.Equal(t, []string{
		"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/main] (set securityContext.seccompProfile instead)",
		"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod] (set securityContext.seccompProfile instead)",
		"spec.containers[1].securityContext.windowsOptions (the node's is linux)",
		"spec.securityContext.windowsOptions (the node's is linux)",
	}, refusedFields(pod, &Options{}, Info{}))
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[1].SecurityContext = nil
	assert.Empty(t, refusedFields(pod, &Options{}, Info{}), "the field has taken the annotations' place")
}

// A spec may mount an image absent from its pod.
func TestImageMountsOfASpec(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	sb, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	spec := containerSpecOf(pod, "main")
	spec.Mounts = []runtime.Mount{{Name: "img", Image: "image:1", ContainerPath: "/m"}}
	_, err = rt.CreateContainer(t.Context(), sb, spec)
	assert.ErrorIs(t, err, runtime.ErrUnsupported)
	assert.ErrorContains(t, err, "this runtime mounts no images")

	rt.(*client).info.ImageVolumes = true
	spec.Mounts[0].ImageSubPath = "a"
	_, err = rt.CreateContainer(t.Context(), sb, spec)
	assert.ErrorContains(t, err, "whole images only")
	spec.Mounts[0].ImageSubPath = ""
	_, err = rt.CreateContainer(t.Context(), sb, spec)
	assert.NoError(t, err)
	spec.Mounts[0].Image = "absent"
	_, err = rt.CreateContainer(t.Context(), sb, spec)
	assert.ErrorContains(t, err, `image "absent" is not on the node`)
}
