// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// annotationSpecHash holds ContainerSpec.Hash if the spec's
// annotations hold another value. Statuses do not show the annotation.
const annotationSpecHash = "keelson.dev/hash"

// found holds the inputs of a container's configuration beyond its spec.
type found struct {
	image        *api.Image
	sandbox      *sandbox
	target       string // container ID, for an ephemeral container
	message      string // file for the termination message; "" for no file
	hosts        string // the pod's hosts file; "" for no file
	capabilities Handler
	node         node

	volumeImages map[string]*api.Image // the mounted images, by reference
}

// containerConfig returns the CRI configuration for spec. Errors begin with the field's path below
// the container, or below the pod.
func containerConfig(spec runtime.ContainerSpec, f found, opts *Options) (*api.ContainerConfig, error) {
	pod, c := spec.Pod, spec.Container
	security, err := containerSecurity(pod, c, userOfImage(f.image), opts)
	if err != nil {
		return nil, err
	}
	security.SupplementalGroups = append(security.SupplementalGroups, spec.SupplementalGroups...)
	security.NamespaceOptions = containerNamespaces(pod, f.target)
	security.NamespaceOptions.UsernsOptions = usersOf(f.sandbox)
	security.NamespaceOptions.Network = f.sandbox.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
	logPath, err := relativeLogPath(f.sandbox.config.GetLogDirectory(), spec.LogPath)
	if err != nil {
		return nil, err
	}
	mounted, err := mounts(spec, f)
	if err != nil {
		return nil, err
	}
	meta := f.sandbox.config.GetMetadata()
	labels := withIdentity(spec.Labels, pod.UID, meta.GetNamespace(), meta.GetName())
	labels[containermeta.LabelContainerName] = spec.Name
	return &api.ContainerConfig{
		Metadata:    &api.ContainerMetadata{Name: spec.Name, Attempt: uint32(max(spec.RestartCount, 0))},
		Image:       &api.ImageSpec{Image: f.image.GetId(), UserSpecifiedImage: spec.Image},
		Command:     spec.Command,
		Args:        spec.Args,
		WorkingDir:  spec.WorkingDir,
		Envs:        keyValues(spec.Env),
		Mounts:      mounted,
		Devices:     devices(&spec),
		CDIDevices:  cdiDevicesOf(spec.CDIDevices),
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

// checkSpec refuses an incomplete spec.
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

// relativeLogPath returns the log path relative to the sandbox's directory, as CRI wants.
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
	if out[containermeta.AnnotationHash] != spec.Hash {
		out[annotationSpecHash] = spec.Hash
	}
	return out
}

// messageTarget returns the path of the termination message inside the container.
func messageTarget(c *v1.Container) string {
	return cmp.Or(c.TerminationMessagePath, v1.TerminationMessagePathDefault)
}

// stopSignal is the signal sent to the container at a stop. Runtimes older than the CRI field
// (1.33) use the image's stop signal.
func stopSignal(c *v1.Container) api.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return api.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return api.Signal(api.Signal_value["SIGNAL_"+name])
}
