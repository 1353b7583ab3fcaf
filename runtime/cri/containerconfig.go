// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// annotationSpecHash is our own: ContainerSpec.Hash where its annotations do not
// say the same. Statuses do not show it.
const annotationSpecHash = "keelson.dev/hash"

// found is what a container's configuration needs beyond its spec.
type found struct {
	image        *api.Image
	sandbox      *sandbox
	target       string // container ID, for an ephemeral container
	message      string // file for the termination message; empty: none
	hosts        string // the pod's hosts file; empty: none
	capabilities Handler
	node         node
}

// containerConfig is what the runtime is told to make of spec. Errors begin
// with the field's path below the container, or below the pod.
func containerConfig(spec runtime.ContainerSpec, f found, opts *Options) (*api.ContainerConfig, error) {
	pod, c := spec.Pod, spec.Container
	security, err := containerSecurity(pod, c, userOfImage(f.image), opts)
	if err != nil {
		return nil, err
	}
	security.NamespaceOptions = containerNamespaces(pod, f.target)
	security.NamespaceOptions.Network = f.sandbox.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
	logPath, err := relativeLogPath(f.sandbox.config.GetLogDirectory(), spec.LogPath)
	if err != nil {
		return nil, err
	}
	meta := f.sandbox.config.GetMetadata()
	labels := withIdentity(spec.Labels, pod.UID, meta.GetNamespace(), meta.GetName())
	labels[runtime.LabelContainerName] = spec.Name
	return &api.ContainerConfig{
		Metadata:    &api.ContainerMetadata{Name: spec.Name, Attempt: uint32(max(spec.RestartCount, 0))},
		Image:       &api.ImageSpec{Image: f.image.GetId(), UserSpecifiedImage: spec.Image},
		Command:     spec.Command,
		Args:        spec.Args,
		WorkingDir:  spec.WorkingDir,
		Envs:        keyValues(spec.Env),
		Mounts:      mounts(spec, f),
		Labels:      labels,
		Annotations: annotations(spec),
		LogPath:     logPath,
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux: &api.LinuxContainerConfig{
			Resources:       containerResources(pod, c, spec.Group, f.node),
			SecurityContext: security,
		},
	}, nil
}

// checkSpec refuses what no configuration can be made of.
func checkSpec(spec *runtime.ContainerSpec) error {
	switch {
	case spec.Pod == nil || spec.Container == nil:
		return errors.New("ContainerSpec: want Pod and Container")
	case spec.Name == "":
		return errors.New("ContainerSpec.Name is missing")
	case spec.Image == "":
		return errors.New("image: is missing")
	case spec.LogPath != "" && !filepath.IsAbs(spec.LogPath):
		return errors.New("ContainerSpec.LogPath is not absolute")
	}
	return nil
}

// relativeLogPath is how CRI wants it: below the sandbox's directory.
func relativeLogPath(dir, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) || dir == "" {
		return "", fmt.Errorf("ContainerSpec.LogPath: %q is not below the sandbox's LogDirectory %q", path, dir)
	}
	return rel, nil
}

func keyValues(env []runtime.EnvVar) []*api.KeyValue {
	out := make([]*api.KeyValue, len(env))
	for i, e := range env {
		out[i] = &api.KeyValue{Key: e.Name, Value: []byte(e.Value)}
	}
	return out
}

func annotations(spec runtime.ContainerSpec) map[string]string {
	out := make(map[string]string, len(spec.Annotations)+1)
	maps.Copy(out, spec.Annotations)
	if out[runtime.AnnotationHash] != spec.Hash {
		out[annotationSpecHash] = spec.Hash
	}
	return out
}

// messageTarget is where the container finds the file for its termination
// message.
func messageTarget(c *v1.Container) string {
	return cmp.Or(c.TerminationMessagePath, v1.TerminationMessagePathDefault)
}

// mounts are those of the spec, the hosts file and the termination message.
func mounts(spec runtime.ContainerSpec, f found) []*api.Mount {
	var out []*api.Mount
	for _, m := range spec.Mounts {
		out = append(out, mount(m, spec.Container, f.capabilities))
	}
	for _, extra := range []struct{ host, container string }{{f.hosts, hostsPath}, {f.message, messageTarget(spec.Container)}} {
		if extra.host != "" && !isMounted(spec.Mounts, extra.container) {
			out = append(out, &api.Mount{HostPath: extra.host, ContainerPath: extra.container})
		}
	}
	return out
}

// mount adds to what the volumes say what the container's volumeMount says.
func mount(m runtime.Mount, c *v1.Container, handler Handler) *api.Mount {
	out := &api.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly}
	i := slices.IndexFunc(c.VolumeMounts, func(v v1.VolumeMount) bool {
		return v.Name == m.Name && filepath.Clean(v.MountPath) == filepath.Clean(m.ContainerPath)
	})
	if i < 0 {
		return out
	}
	v := &c.VolumeMounts[i]
	if v.MountPropagation != nil {
		switch *v.MountPropagation {
		case v1.MountPropagationHostToContainer:
			out.Propagation = api.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		case v1.MountPropagationBidirectional:
			out.Propagation = api.MountPropagation_PROPAGATION_BIDIRECTIONAL
		}
	}
	if v.RecursiveReadOnly != nil && *v.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled {
		// Enabled on a runtime without has been refused.
		private := out.Propagation == api.MountPropagation_PROPAGATION_PRIVATE
		out.RecursiveReadOnly = out.Readonly && private && handler.RecursiveReadOnlyMounts
	}
	return out
}

func isMounted(mounts []runtime.Mount, containerPath string) bool {
	return slices.ContainsFunc(mounts, func(m runtime.Mount) bool {
		return filepath.Clean(m.ContainerPath) == filepath.Clean(containerPath)
	})
}

// stopSignal is the signal that asks the container to end; runtimes before CRI
// knew of it (1.33) use the image's.
func stopSignal(c *v1.Container) api.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return api.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return api.Signal(api.Signal_value["SIGNAL_"+name])
}
