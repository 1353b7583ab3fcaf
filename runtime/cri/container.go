// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// CreateContainer implements runtime.Runtime. The image has to be on the node.
func (r *client) CreateContainer(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if err := checkSpec(&spec); err != nil {
		return runtime.ContainerID{}, err
	}
	if err := r.checkDevices(&spec); err != nil {
		return runtime.ContainerID{}, err
	}
	if !goodID(string(id)) {
		return runtime.ContainerID{}, notFound("CreateContainer", string(id))
	}
	f, err := r.find(ctx, id, spec)
	if err != nil {
		return runtime.ContainerID{}, err
	}
	made, err := r.create(ctx, id, spec, f)
	if err != nil {
		return runtime.ContainerID{}, errors.Join(err, r.files.removeMessage(f.message))
	}
	return runtime.ContainerID{Runtime: r.Name(), ID: made}, nil
}

// find checks the pod, gathers the inputs of the container's configuration and creates the pod's files.
func (r *client) find(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (found, error) {
	opts, err := r.recallHandler(ctx, spec.Pod)
	if err != nil {
		return found{}, err
	}
	f := found{node: r.node, capabilities: handlerOf(spec.Pod, opts.RuntimeHandlers, r.info)}
	if f.sandbox, err = r.sandboxFor(ctx, id, spec); err != nil {
		return f, err
	}
	if f.image, err = r.imageFor(ctx, &spec); err != nil {
		return f, err
	}
	if f.image == nil {
		return f, fmt.Errorf("image %q is not on the node", spec.Image)
	}
	if f.volumeImages, err = r.findVolumeImages(ctx, spec); err != nil {
		return f, err
	}
	if f.target, err = r.ephemeralTarget(ctx, spec); err != nil {
		return f, err
	}
	if !isMounted(spec.Mounts, hostsPath) {
		if f.hosts, err = r.writeHosts(f.sandbox, spec.Pod); err != nil {
			return f, fmt.Errorf("write the pod's hosts file: %w", err)
		}
	}
	if spec.LogPath != "" {
		if err := os.MkdirAll(filepath.Dir(spec.LogPath), logDirMode); err != nil {
			return f, fmt.Errorf("make the container's log directory: %w", err)
		}
	}
	if !isMounted(spec.Mounts, messageTarget(spec.Container)) {
		if f.message, err = r.files.makeMessage(spec.Pod.UID, spec.Name); err != nil {
			return f, fmt.Errorf("make the file for the termination message: %w", err)
		}
	}
	return f, nil
}

// findVolumeImages looks up the images mounted by the container. Missing images are left out.
func (r *client) findVolumeImages(ctx context.Context, spec runtime.ContainerSpec) (map[string]*api.Image, error) {
	var out map[string]*api.Image
	for _, m := range spec.Mounts {
		if m.Image == "" || out[m.Image] != nil {
			continue
		}
		if err := r.refuseImageMount(&m); err != nil {
			return nil, err
		}
		image, err := r.imageStatus(ctx, m.Image)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make(map[string]*api.Image)
		}
		out[m.Image] = image
	}
	return out, nil
}

// refuseImageMount refuses an image mount not supported by the runtime. A spec may have image
// mounts beyond those of the pod, which CheckPod has checked.
func (r *client) refuseImageMount(m *runtime.Mount) error {
	var field string
	switch {
	case !r.info.ImageVolumes:
		field = "ContainerSpec.Mounts.Image (" + whyNoImageVolumes + ")"
	case m.ImageSubPath != "" && !r.info.ImageVolumeSubPaths:
		field = "ContainerSpec.Mounts.ImageSubPath (" + whyNoImageSubPaths + ")"
	default:
		return nil
	}
	return &runtime.UnsupportedError{Runtime: r.Name(), Fields: []string{field}}
}

func (r *client) create(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec, f found) (string, error) {
	config, err := containerConfig(spec, f, &r.opts)
	if err != nil {
		return "", err
	}
	answer, err := do(ctx, callTimeout, "CreateContainer", r.cri.CreateContainer, &api.CreateContainerRequest{
		PodSandboxId: string(id), Config: config, SandboxConfig: f.sandbox.config,
	})
	if errors.Is(err, runtime.ErrNotFound) {
		r.forget(id)
		if _, gone := r.sandboxStatus(ctx, string(id)); gone == nil {
			err = withoutKind(err) // the sandbox exists: another object was not found
		}
	}
	if err != nil {
		return "", err
	}
	if !goodID(answer.GetContainerId()) {
		return "", fmt.Errorf("CreateContainer: the runtime answered with %q for an ID", answer.GetContainerId())
	}
	return answer.GetContainerId(), nil
}

// writeHosts writes the pod's hosts file and returns its path, or "" if the pod has neither the
// host's network nor addresses.
func (r *client) writeHosts(s *sandbox, pod *v1.Pod) (string, error) {
	switch {
	case s.hostNetwork():
		node, err := os.ReadFile(hostsPath)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return r.files.writeHosts(pod.UID, hostNetworkHosts(pod, string(node)))
	case len(s.ips) == 0:
		return "", nil
	default:
		return r.files.writeHosts(pod.UID, podHosts(pod, s.config.GetHostname(), r.opts.DNS.Domain, s.ips))
	}
}

// ephemeralTarget returns the ID of the ephemeral container's target container.
func (r *client) ephemeralTarget(ctx context.Context, spec runtime.ContainerSpec) (string, error) {
	if spec.Group != runtime.GroupEphemeral {
		return "", nil
	}
	i := slices.IndexFunc(spec.Pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == spec.Name })
	if i < 0 || spec.Pod.Spec.EphemeralContainers[i].TargetContainerName == "" {
		return "", nil
	}
	name := spec.Pod.Spec.EphemeralContainers[i].TargetContainerName
	containers, err := r.listContainers(ctx, &api.ContainerFilter{
		State:         &api.ContainerStateValue{State: api.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{containermeta.LabelPodUID: string(spec.Pod.UID), containermeta.LabelContainerName: name},
	})
	if err != nil {
		return "", err
	}
	if len(containers) == 0 {
		return "", fmt.Errorf("targetContainerName: container %q is not running", name)
	}
	return slices.MaxFunc(containers, func(a, b *api.Container) int { return int(a.GetCreatedAt() - b.GetCreatedAt()) }).GetId(), nil
}

// startPatience is how much longer than its ctx a start may take. A start cut short may or may not
// happen, and containerd may leave parts of the start behind. Almost all starts end within
// startPatience.
const startPatience = time.Second

// StartContainer implements runtime.Runtime. When ctx ends, StartContainer waits one more second
// for the runtime to report the outcome of the start. A nil error still means the container was
// started.
func (r *client) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	if !goodID(id.ID) {
		return notFound("StartContainer", id.ID)
	}
	release, err := r.turns.Lock(ctx, id.ID)
	if err != nil {
		return fmt.Errorf("StartContainer: %w", err)
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("StartContainer: %w", err)
	}
	switch stopped, err := r.files.isStopped(id.ID); {
	case err != nil:
		return fmt.Errorf("StartContainer: %w", err)
	case stopped:
		return errors.New("StartContainer: the container was stopped before it was started")
	}
	longer, cancel := lingering(ctx, startPatience)
	defer cancel()
	_, err = do(longer, callTimeout, "StartContainer", r.cri.StartContainer, &api.StartContainerRequest{ContainerId: id.ID})
	switch {
	case isUncertain(err) && r.hasStarted(longer, id.ID):
		return nil
	case isUncertain(err):
		r.lost.Store(id.ID, true)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("StartContainer: %w", ctx.Err())
	}
	return err
}

// RemoveContainer implements runtime.Runtime.
func (r *client) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	if !goodID(id.ID) {
		return notFound("RemoveContainer", id.ID)
	}
	st, err := r.containerStatus(ctx, id.ID)
	if err == nil && (mayRun(st.GetState()) || r.isLost(id.ID)) {
		err = r.StopContainer(ctx, id, 0)
	}
	if gone(err) != nil {
		return err
	}
	release, err := r.turns.Lock(ctx, id.ID)
	if err != nil {
		return fmt.Errorf("RemoveContainer: %w", err)
	}
	defer release()
	if err = r.remove(ctx, id.ID); err != nil {
		err = r.removeWithTask(ctx, id.ID, err)
	}
	if gone(err) != nil {
		return err
	}
	r.lost.Delete(id.ID)
	return errors.Join(r.files.removeMessage(messageFile(st)), r.files.unmarkStopped(id.ID))
}

func (r *client) remove(ctx context.Context, id string) error {
	return again(ctx, func(ctx context.Context) error {
		_, err := do(ctx, callTimeout, "RemoveContainer", r.cri.RemoveContainer, &api.RemoveContainerRequest{ContainerId: id})
		return err
	}, r.containerExists(id))
}
