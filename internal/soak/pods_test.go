// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// shape is a kind of pod.
type shape struct {
	name   string
	finite bool // it may be over by itself, or after a fault
	ends   bool // it is over by itself
	build  func(b *builder)
}

// shapes are all shapes.
var shapes = []*shape{
	{name: "web", build: func(b *builder) {
		b.spec.HostNetwork = true
		b.grace(2)
		b.scratch.EmptyDir.Medium = v1.StorageMediumMemory
		c := b.main("main", "-term=300ms")
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/part", SubPath: "a/part"})
	}},
	{name: "pair", build: func(b *builder) {
		b.grace(3)
		b.init("first", "-after=100ms")
		b.init("second", "-after=300ms")
		b.main("left", "-term=200ms", "-needs=first,second")
		b.main("right", "-term=1s", "-needs=first,second")
	}},
	{name: "sidecar", build: func(b *builder) {
		b.spec.HostNetwork = true
		b.grace(4)
		b.sidecar("side", "-term=100ms")
		b.init("first", "-after=100ms")
		b.hook(b.main("main", "-term=200ms", "-needs=first"), "500ms")
	}},
	{name: "deaf", build: func(b *builder) {
		b.spec.HostNetwork = true
		b.grace(1)
		b.main("main", "-term=-1s")
	}},
	{name: "named", build: func(b *builder) {
		b.spec.HostNetwork = true
		b.pod.UID = types.UID(b.pod.Name + "-by-name")
		b.grace(2)
		b.main("main", "-term=200ms")
	}},
	{name: "probed", build: func(b *builder) {
		b.grace(2)
		c := b.main("main", "-term=100ms")
		c.ReadinessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/test", "-e", filepath.Join(scratchPath, "ready")}}},
			PeriodSeconds: 2, TimeoutSeconds: 5,
		}
	}},
	{name: "job", finite: true, ends: true, build: func(b *builder) {
		b.spec.HostNetwork = true
		b.spec.RestartPolicy = v1.RestartPolicyOnFailure
		b.grace(1)
		b.init("first", "-after=50ms")
		b.main("main", "-after=1500ms", "-codes=3,0", "-needs=first")
	}},
	{name: "once", finite: true, build: func(b *builder) {
		b.spec.RestartPolicy = v1.RestartPolicyNever
		b.grace(2)
		b.main("main", "-term=500ms")
	}},
	{name: "sidejob", finite: true, ends: true, build: func(b *builder) {
		b.spec.HostNetwork = true
		b.spec.RestartPolicy = v1.RestartPolicyNever
		b.grace(2)
		b.sidecar("side", "-term=100ms")
		b.main("main", "-after=3s", "-codes=0")
	}},
}

// The volumes of every pod, and their paths in the containers.
const (
	labelGeneration = "soak/generation"
	scratchPath     = "/scratch"
	configPath      = "/config"
	configName      = "soak"
)

// builder makes a pod.
type builder struct {
	folder     Folder
	pod        *v1.Pod
	spec       *v1.PodSpec
	scratch    *v1.Volume
	generation int
}

// newPod makes a generation of a pod.
func newPod(folder Folder, name string, generation int, s *shape) *v1.Pod {
	pod := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{labelGeneration: strconv.Itoa(generation)},
		},
	}
	b := &builder{folder: folder, pod: pod, spec: &pod.Spec, generation: generation}
	b.spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "shared", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: string(folder)}}},
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: configName},
		}}},
	}
	b.scratch = &b.spec.Volumes[0]
	s.build(b)
	return pod
}

func manifestOf(pod *v1.Pod) ([]byte, error) { return yaml.Marshal(pod) }

func (b *builder) grace(seconds int64) { b.spec.TerminationGracePeriodSeconds = &seconds }

func (b *builder) container(name, kind string, args ...string) v1.Container {
	return v1.Container{
		Name: name, Image: containerdtest.BusyboxImage,
		Command: append([]string{
			b.folder.Program(), "-folder=" + string(b.folder), "-pod=" + b.pod.Name, fmt.Sprintf("-generation=%d", b.generation),
			"-container=" + name, "-kind=" + kind, "-scratch=" + scratchPath, "-config=" + configPath,
		}, args...),
		Env: []v1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}},
		VolumeMounts: []v1.VolumeMount{
			{Name: "scratch", MountPath: scratchPath},
			{Name: "config", MountPath: configPath, ReadOnly: true},
			{Name: "shared", MountPath: string(b.folder)},
		},
	}
}

func (b *builder) main(name string, args ...string) *v1.Container {
	b.spec.Containers = append(b.spec.Containers, b.container(name, "main", args...))
	return &b.spec.Containers[len(b.spec.Containers)-1]
}

func (b *builder) init(name string, args ...string) {
	b.spec.InitContainers = append(b.spec.InitContainers, b.container(name, "init", args...))
}

func (b *builder) sidecar(name string, args ...string) {
	c := b.container(name, "sidecar", args...)
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	b.spec.InitContainers = append(b.spec.InitContainers, c)
}

// hook gives the container a preStop hook of the given duration.
func (b *builder) hook(c *v1.Container, takes string) {
	command := append(c.Command[:6:6], "-hook="+takes)
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}}
}

// lasting are the names of the containers that run as long as their pod.
func lasting(pod *v1.Pod) (names []string) {
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			names = append(names, c.Name)
		}
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}
