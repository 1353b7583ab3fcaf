// SPDX-License-Identifier: Apache-2.0

package hostneeds_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hostneeds"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func seccomp(file string) *v1.SeccompProfile {
	return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &file}
}

func appArmor(kind v1.AppArmorProfileType) *v1.AppArmorProfile {
	return &v1.AppArmorProfile{Type: kind}
}

// podWith returns a pod with an init container and a container, which change sets.
func podWith(change func(spec *v1.PodSpec)) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers:  []v1.Container{{Name: "first", SecurityContext: &v1.SecurityContext{}}},
		Containers:      []v1.Container{{Name: "main", SecurityContext: &v1.SecurityContext{}}},
		SecurityContext: &v1.PodSecurityContext{},
	}}
	change(&pod.Spec)
	return pod
}

func refusal(fields string) feature.AdmitResult {
	return feature.AdmitResult{Reason: "UnsupportedPodSpec", Message: "the host cannot honour: " + fields}
}

func TestSeccomp(t *testing.T) {
	profiles := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(profiles, "here.json"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(profiles, "..", "outside.json"), nil, 0o600))
	f := hostneeds.New(hostneeds.Options{Profiles: profiles})
	why := fmt.Sprintf(" (%q is not in %s)", "gone.json", profiles)
	for name, test := range map[string]struct {
		change func(*v1.PodSpec)
		fields string
	}{
		"none":         {func(*v1.PodSpec) {}, ""},
		"present":      {func(s *v1.PodSpec) { s.SecurityContext.SeccompProfile = seccomp("here.json") }, ""},
		"of the pod":   {func(s *v1.PodSpec) { s.SecurityContext.SeccompProfile = seccomp("gone.json") }, "spec.securityContext.seccompProfile.localhostProfile" + why},
		"a container":  {func(s *v1.PodSpec) { s.Containers[0].SecurityContext.SeccompProfile = seccomp("gone.json") }, "spec.containers[0].securityContext.seccompProfile.localhostProfile" + why},
		"another path": {func(s *v1.PodSpec) { s.Containers[0].SecurityContext.SeccompProfile = seccomp("../gone.json") }, ""},
		"overridden": {func(s *v1.PodSpec) {
			s.SecurityContext.SeccompProfile = seccomp("gone.json")
			s.Containers[0].SecurityContext.SeccompProfile = seccomp("here.json")
			s.InitContainers[0].SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := feature.AdmitResult{}
			if test.fields != "" {
				want = refusal(test.fields)
			}
			require.Equal(t, want, f.Admit(podWith(test.change)))
		})
	}
	pod := podWith(func(s *v1.PodSpec) { s.SecurityContext.SeccompProfile = seccomp("gone.json") })
	require.Zero(t, hostneeds.New(hostneeds.Options{}).Admit(pod), "not checked")
	pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext = nil, nil
	require.Zero(t, f.Admit(pod))
}

func TestAppArmor(t *testing.T) {
	const why = " (AppArmor is not enabled)"
	isOn := false
	f := hostneeds.New(hostneeds.Options{AppArmor: func() bool { return isOn }})
	annotated := func(value string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "main": value}}
		}
	}
	annotation := "metadata.annotations[" + v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "main]"
	for name, test := range map[string]struct {
		change func(*v1.Pod)
		fields string
	}{
		"none":       {func(*v1.Pod) {}, ""},
		"unconfined": {func(p *v1.Pod) { p.Spec.SecurityContext.AppArmorProfile = appArmor(v1.AppArmorProfileTypeUnconfined) }, ""},
		"of the pod": {func(p *v1.Pod) {
			p.Spec.SecurityContext.AppArmorProfile = appArmor(v1.AppArmorProfileTypeRuntimeDefault)
		}, "spec.securityContext.appArmorProfile" + why},
		"annotation":             {annotated(v1.DeprecatedAppArmorBetaProfileNamePrefix + "mine"), annotation + why},
		"annotated as unlimited": {annotated(v1.DeprecatedAppArmorBetaProfileNameUnconfined), ""},
		"of two": {func(p *v1.Pod) {
			p.Spec.InitContainers[0].SecurityContext.AppArmorProfile = appArmor(v1.AppArmorProfileTypeLocalhost)
			p.Spec.Containers[0].SecurityContext.AppArmorProfile = appArmor(v1.AppArmorProfileTypeRuntimeDefault)
		}, "spec.containers[0].securityContext.appArmorProfile" + why + ", spec.initContainers[0].securityContext.appArmorProfile" + why},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(func(*v1.PodSpec) {})
			test.change(pod)
			want := feature.AdmitResult{}
			if test.fields != "" {
				want = refusal(test.fields)
			}
			isOn = false
			require.Equal(t, want, f.Admit(pod))
			isOn = true
			require.Zero(t, f.Admit(pod))
			require.Zero(t, hostneeds.New(hostneeds.Options{}).Admit(pod), "not checked")
		})
	}
}

func TestBidirectional(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/data/shared", link))
	both, in := v1.MountPropagationBidirectional, v1.MountPropagationHostToContainer
	table := []mount.Info{
		{Target: "/"},
		{Target: "/data", Propagation: "master:2"},
		{Target: "/data/private"},
		{Target: "/data/privateer", Propagation: "shared:4"},
		{Target: "/twice"},
		{Target: "/twice", Propagation: "shared:9"},
	}
	var broken error
	f := hostneeds.New(hostneeds.Options{Root: root, Mounts: func() ([]mount.Info, error) { return table, broken }})
	pod := func(hostPath string, mode *v1.MountPropagationMode) *v1.Pod {
		return podWith(func(s *v1.PodSpec) {
			v := v1.Volume{Name: "v"}
			if hostPath != "" {
				v.HostPath = &v1.HostPathVolumeSource{Path: hostPath}
			}
			s.Volumes = []v1.Volume{{Name: "other", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/twice"}}}, v}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", MountPropagation: mode}}
		})
	}
	const field = "spec.containers[0].volumeMounts[0].mountPropagation"
	for path, above := range map[string]string{
		"": "/", "/": "/", "/datum": "/", "/data": "", "/data/x/y": "", "/data/private": "/data/private", "/data/private/x": "/data/private",
		"/data/privateer": "", "/twice/x": "",
	} {
		want := feature.AdmitResult{}
		if above != "" {
			want = refusal(field + " (the mount at " + above + " is not shared)")
		}
		require.Equal(t, want, f.Admit(pod(path, &both)), path)
		require.Zero(t, f.Admit(pod(path, &in)), path)
		require.Zero(t, f.Admit(pod(path, nil)), path)
	}
	require.Equal(t, refusal(field+" (the mount at / is not shared)"), f.Admit(pod(link, &both)), "a link to nothing")
	broken = errors.New("no table")
	require.Zero(t, f.Admit(pod("/", &both)), "the runtime decides")
}
