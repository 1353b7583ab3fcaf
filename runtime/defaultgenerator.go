// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// DefaultGeneratorOptions are the parts of a DefaultGenerator.
type DefaultGeneratorOptions struct {
	// LogRoot is the directory that holds one directory of logs per pod, as the
	// kubelet's /var/log/pods. Absolute. Required. It need not exist.
	LogRoot string
	// HostIPs are the node's addresses, primary first, at most one per family.
	// They are status.hostIP(s), and status.podIP(s) of pods on the host
	// network; their order decides that of a pod's addresses. Defaults to none:
	// a container that asks for status.hostIP(s) is then an error.
	HostIPs []string
	// Objects reads ConfigMaps and Secrets. Defaults to nil: a container that
	// refers to one is then an error, unless the reference is optional.
	Objects Objects
	// Services returns the Services whose variables the containers of pod get, as
	// serviceEnv takes them: those of its namespace, and kubernetes in namespace
	// default; others do no harm. It is called for every container, may be called
	// concurrently and ends when ctx does. The result stays the callee's. An error
	// means "cannot tell yet". Defaults to nil: no variables.
	Services func(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error)
	// Allocatable is what the node can give to pods. A resourceFieldRef to a
	// limit that is not set reads it. Defaults to nothing: such a reference is
	// then an error.
	Allocatable v1.ResourceList
	// Volumes returns what is to be mounted into a container of pod. It is
	// called for every container, also for one without volumeMounts, may be
	// called concurrently and ends when ctx does. Its pod and container are not
	// to be written; the container is that of pod with each subPathExpr
	// expanded into subPath. The mounts are in no particular order and belong
	// to the generator. Its errors name the volumeMount. Defaults to nil: a
	// container with volumeMounts is then an error.
	Volumes func(ctx context.Context, pod *v1.Pod, container *v1.Container) ([]Mount, error)
	// Groups returns the groups that the pod's volumes ask for and its spec does
	// not name, as the kubelet's GetExtraSupplementalGroupsForPod. It is called
	// after Volumes and under the same rules; the result belongs to the generator.
	// Defaults to nil: none.
	Groups func(pod *v1.Pod) []int64
}

// DefaultGenerator is the Generator of a node without a cluster, following the
// 1.36 kubelet: environment, command and args, hostname, labels, annotations
// and log paths. DNS and hosts files are not its job; a caller who wants them
// wraps it and adds to the specs.
//
// It also counts restarts from log files (RestartCounter) and removes those of
// instances that nobody will ask for (LogRemover). It keeps nothing between calls
// and is safe for concurrent use.
type DefaultGenerator struct {
	opts DefaultGeneratorOptions
}

var (
	_ Generator      = (*DefaultGenerator)(nil)
	_ RestartCounter = (*DefaultGenerator)(nil)
	_ LogRemover     = (*DefaultGenerator)(nil)
	_ Checker        = (*DefaultGenerator)(nil)
)

// NewDefaultGenerator checks opts and touches nothing. Slices and maps in opts
// are copied. The error names the bad field.
func NewDefaultGenerator(opts DefaultGeneratorOptions) (*DefaultGenerator, error) {
	if !filepath.IsAbs(opts.LogRoot) {
		return nil, fmt.Errorf("runtime: DefaultGeneratorOptions.LogRoot: %q is not absolute", opts.LogRoot)
	}
	if good := parseAddrs(opts.HostIPs); len(good) != len(opts.HostIPs) {
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

// Sandbox implements Generator. Labels and annotations are the pod's own plus,
// winning, those that say whose sandbox it is.
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

// Container implements Generator. Errors begin with the path of the field they
// are about, as in "spec.containers[0].env[2].valueFrom.fieldRef: …", and hold
// no values. The cleanup is always nil.
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

// container makes all of the spec but its group. Errors begin with the field's
// path below the container.
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
	return ContainerSpec{
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
	}, nil
}

// services asks the caller for what the pod's containers know of Services.
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

// mounts asks the caller for the container's mounts.
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

// NextRestartCount implements RestartCounter by the names of the container's
// log files. What cannot be read is 0.
func (g *DefaultGenerator) NextRestartCount(pod *v1.Pod, container string) int32 {
	podDir, err := podLogDir(g.opts.LogRoot, pod)
	if err != nil {
		return 0
	}
	dir, err := containerLogDir(podDir, container)
	if err != nil {
		return 0
	}
	return nextRestartCount(dir)
}
