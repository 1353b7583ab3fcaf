// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// DefaultGeneratorOptions configures a DefaultGenerator.
type DefaultGeneratorOptions struct {
	// LogRoot is the directory of the pods' log directories, as the kubelet's /var/log/pods.
	// Absolute. Required. The directory may be missing.
	LogRoot string
	// HostIPs are the node's addresses, primary first, at most one per family. They are the values
	// of status.hostIP(s), and of status.podIP(s) of pods on the host network. Their order
	// determines the order of a pod's addresses. Defaults to none: a container with a reference to
	// status.hostIP(s) is then an error.
	HostIPs []string
	// Objects reads ConfigMaps and Secrets. Defaults to nil: a container with a reference to a
	// ConfigMap or Secret is then an error, unless the reference is optional.
	Objects Objects
	// Services returns the Services for the environment variables of the pod's containers: those of
	// the pod's namespace, and kubernetes in namespace default. Other Services are ignored.
	// Services is called for every container and may be called concurrently. The end of ctx ends
	// the call. The generator does not modify the result. An error means "not known yet", and the
	// start is tried again. Defaults to nil: no variables.
	Services func(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error)
	// Allocatable is the node's allocatable resources: the value of a resourceFieldRef to an unset
	// limit. Defaults to none: such a reference is then an error.
	Allocatable v1.ResourceList
	// Volumes returns the mounts of a container of pod. Volumes is called for every container, also
	// without volumeMounts, and may be called concurrently. The end of ctx ends the call. pod and
	// container must not be modified. container has each subPathExpr expanded into subPath. The
	// mounts may be in any order, and belong to the generator. Errors name the volumeMount.
	// Defaults to nil: a container with volumeMounts is then an error.
	Volumes func(ctx context.Context, pod *v1.Pod, container *v1.Container) ([]Mount, error)
	// Groups returns the groups required by the pod's volumes and missing from its spec, as the
	// kubelet's GetExtraSupplementalGroupsForPod. Groups is called after Volumes, under the same
	// rules. The result belongs to the generator. Defaults to nil: none.
	Groups func(pod *v1.Pod) []int64
	// Extend adds to the spec of a container of pod, for example devices. Extend is called last, for
	// every container, under the rules of Volumes. Errors name the field of the container, and are
	// shown to users. Defaults to nil: nothing is added.
	Extend func(ctx context.Context, pod *v1.Pod, container *v1.Container, spec *ContainerSpec) error
}

// DefaultGenerator is the Generator of a node without a cluster. It follows the kubelet 1.36 for
// environment, command and args, hostname, labels, annotations and log paths. DNS and hosts files
// are not included. A caller can wrap the generator and add them to the specs.
//
// DefaultGenerator counts restarts from log files (RestartCounter), and removes the logs of removed
// instances (LogRemover). It has no state and is safe for concurrent use.
type DefaultGenerator struct {
	opts DefaultGeneratorOptions
}

var (
	_ Generator      = (*DefaultGenerator)(nil)
	_ RestartCounter = (*DefaultGenerator)(nil)
	_ LogRemover     = (*DefaultGenerator)(nil)
	_ Checker        = (*DefaultGenerator)(nil)
)

// NewDefaultGenerator validates opts and copies its slices and maps. It does not access the disk.
// The error names the invalid field.
func NewDefaultGenerator(opts DefaultGeneratorOptions) (*DefaultGenerator, error) {
	if !filepath.IsAbs(opts.LogRoot) {
		return nil, fmt.Errorf("runtime: DefaultGeneratorOptions.LogRoot: %q is not absolute", opts.LogRoot)
	}
	if slices.ContainsFunc(opts.HostIPs, func(ip string) bool { _, err := netip.ParseAddr(ip); return err != nil }) {
		return nil, fmt.Errorf("runtime: DefaultGeneratorOptions.HostIPs: %q are not all IP addresses", opts.HostIPs)
	}
	for name, q := range opts.Allocatable {
		if q.Sign() < 0 {
			return nil, fmt.Errorf("runtime: DefaultGeneratorOptions.Allocatable: %s is negative", name)
		}
	}
	opts.LogRoot = filepath.Clean(opts.LogRoot)
	opts.HostIPs = slices.Clone(opts.HostIPs)
	opts.Allocatable = opts.Allocatable.DeepCopy()
	return &DefaultGenerator{opts: opts}, nil
}

// Sandbox implements Generator. The sandbox has the labels and annotations of the pod, and labels and
// annotations that identify the pod. The identifying labels and annotations have precedence.
func (g *DefaultGenerator) Sandbox(_ context.Context, pod *v1.Pod, attempt uint32) (SandboxSpec, error) {
	dir, err := podLogDir(g.opts.LogRoot, pod)
	if err != nil {
		return SandboxSpec{}, err
	}
	hostname, err := podHostname(pod)
	if err != nil {
		return SandboxSpec{}, err
	}
	labels := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(labels, pod.Labels)
	maps.Copy(labels, podIdentity(pod))
	return SandboxSpec{
		UID:          pod.UID,
		Namespace:    pod.Namespace,
		Name:         pod.Name,
		Attempt:      attempt,
		Hostname:     hostname,
		HostNetwork:  pod.Spec.HostNetwork,
		LogDirectory: dir,
		Labels:       labels,
		Annotations:  maps.Clone(pod.Annotations),
		Pod:          pod,
	}, nil
}

// Container implements Generator. Errors begin with the path of the field, as in
// "spec.containers[0].env[2].valueFrom.fieldRef: …", and contain no values. The cleanup is always
// nil.
func (g *DefaultGenerator) Container(ctx context.Context, pod *v1.Pod, ref Ref, in ContainerInput) (ContainerSpec, func(), error) {
	c := ref.Container(pod)
	if c == nil {
		return ContainerSpec{}, nil, fmt.Errorf("the pod has no spec.%s[%d]", ref.Group, ref.Index)
	}
	podDir, err := podLogDir(g.opts.LogRoot, pod)
	if err != nil {
		return ContainerSpec{}, nil, err
	}
	spec, err := g.container(ctx, pod, c, podDir, in)
	if err != nil {
		return ContainerSpec{}, nil, fmt.Errorf("spec.%s[%d].%w", ref.Group, ref.Index, err)
	}
	spec.Group = ref.Group
	return spec, nil, nil
}

// UsesAddresses implements AddressUser: a variable has the value of status.podIP or status.podIPs.
func (g *DefaultGenerator) UsesAddresses(pod *v1.Pod) bool {
	uses := func(e v1.EnvVar) bool {
		return e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && strings.HasPrefix(e.ValueFrom.FieldRef.FieldPath, "status.podIP")
	}
	for _, c := range Containers(pod) {
		if slices.ContainsFunc(c.Env, uses) {
			return true
		}
	}
	return false
}

// container makes the spec without its group. Errors begin with the path of the field below the
// container.
func (g *DefaultGenerator) container(ctx context.Context, pod *v1.Pod, c *v1.Container, podDir string, in ContainerInput) (ContainerSpec, error) {
	logDir, err := containerLogDir(podDir, c.Name)
	if err != nil {
		return ContainerSpec{}, err
	}
	annotations, err := containerAnnotations(pod, c, in)
	if err != nil {
		return ContainerSpec{}, err
	}
	services, err := g.services(ctx, pod)
	if err != nil {
		return ContainerSpec{}, err
	}
	sources := envSources{
		pod:         pod,
		container:   c,
		podIPs:      in.PodIPs,
		hostIPs:     g.opts.HostIPs,
		allocatable: g.opts.Allocatable,
		objects:     newObjectReader(g.opts.Objects, pod.Namespace),
		services:    services,
	}
	env, err := sources.build(ctx)
	if err != nil {
		return ContainerSpec{}, err
	}
	command, err := env.expandAll("command", c.Command)
	if err != nil {
		return ContainerSpec{}, err
	}
	args, err := env.expandAll("args", c.Args)
	if err != nil {
		return ContainerSpec{}, err
	}
	mounts, err := g.mounts(ctx, pod, c, env)
	if err != nil {
		return ContainerSpec{}, err
	}
	var groups []int64
	if g.opts.Groups != nil {
		groups = g.opts.Groups(pod)
	}
	spec := ContainerSpec{
		Name:         c.Name,
		RestartCount: in.RestartCount,
		Hash:         in.Hash,
		Image:        c.Image,
		Command:      command,
		Args:         args,
		Env:          env.vars,
		WorkingDir:   c.WorkingDir,
		Mounts:       mounts,
		LogPath:      filepath.Join(logDir, fmt.Sprintf("%d.log", in.RestartCount)),

		SupplementalGroups: groups,

		Labels:      containerLabels(pod, c),
		Annotations: annotations,
		Pod:         pod,
		Container:   c,
	}
	if g.opts.Extend != nil {
		err = g.opts.Extend(ctx, pod, c, &spec)
	}
	return spec, err
}

// services returns the variables of Services for the pod's containers.
func (g *DefaultGenerator) services(ctx context.Context, pod *v1.Pod) ([]EnvVar, error) {
	if g.opts.Services == nil {
		return nil, nil
	}
	services, err := g.opts.Services(ctx, pod)
	if err != nil {
		return nil, fmt.Errorf("env: variables of Services: %w", err)
	}
	return serviceEnv(pod, services), nil
}

// mounts returns the caller's mounts for the container.
func (g *DefaultGenerator) mounts(ctx context.Context, pod *v1.Pod, c *v1.Container, env *environment) ([]Mount, error) {
	if g.opts.Volumes == nil {
		if len(c.VolumeMounts) == 0 {
			return nil, nil
		}
		var names []string
		for i := range c.VolumeMounts {
			names = append(names, fmt.Sprintf("%q", c.VolumeMounts[i].Name))
		}
		return nil, fmt.Errorf("volumeMounts: this node has no volumes, so it cannot mount %s", strings.Join(names, ", "))
	}
	resolved, err := resolveSubPaths(c, env)
	if err != nil {
		return nil, err
	}
	mounts, err := g.opts.Volumes(ctx, pod, resolved)
	if err != nil {
		secrets := secretVariables(c, env.vars)
		for i := range c.VolumeMounts {
			if expr := c.VolumeMounts[i].SubPathExpr; expr != "" {
				secrets.Expanded(expr, resolved.VolumeMounts[i].SubPath)
			}
		}
		return nil, fmt.Errorf("volumeMounts: %w", secrets.Error(err))
	}
	return mounts, nil
}

// NextRestartCount implements RestartCounter with the names of the container's log files. The
// result is 0 if the files cannot be read.
func (g *DefaultGenerator) NextRestartCount(pod *v1.Pod, container string) int32 {
	dir, _ := g.logDir(pod, container) // "" cannot be read
	return nextRestartCount(dir)
}

// logDir returns the log directory of a container.
func (g *DefaultGenerator) logDir(pod *v1.Pod, container string) (string, error) {
	podDir, err := podLogDir(g.opts.LogRoot, pod)
	if err != nil {
		return "", err
	}
	return containerLogDir(podDir, container)
}
