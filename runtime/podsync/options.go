// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// Volumes sets up the volumes of pods. *volumemanager.Manager, made without Options.Pods,
// implements Volumes. All methods are safe for concurrent use.
type Volumes interface {
	// WaitForAttachAndMount returns nil when the pod's volumes are mounted. If ctx ends before, or
	// waiting cannot help, the error names the missing volumes. From the call on the pod needs the
	// volumes.
	WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error
	// WaitForUnmount unmounts the volumes of a pod without running containers, and returns nil when
	// no volume is mounted. It is called, too, for a pod that only an earlier agent knew.
	WaitForUnmount(ctx context.Context, uid types.UID) error
	// PodsOnDisk returns the pods with volume directories.
	PodsOnDisk() ([]types.UID, error)
	// CleanupOrphan removes the volume directories of a pod, which may have none.
	CleanupOrphan(uid types.UID) error
	// MountOf returns where the volume of c.VolumeMounts[i] is on the host.
	MountOf(ctx context.Context, pod *v1.Pod, c *v1.Container, i int) (path string, readOnly, relabel bool, err error)
	// GetExtraSupplementalGroupsForPod returns the supplemental groups that the pod's volumes
	// require.
	GetExtraSupplementalGroupsForPod(pod *v1.Pod) []int64
}

// Probes finds out whether containers are healthy. *prober.Prober, made without a Sink, implements
// Probes. All methods are safe for concurrent use and return without waiting for a probe. id is the
// text of the runtime.ContainerID of a container instance.
type Probes interface {
	// Observe reports the running containers in status, at every sync of a pod that has or had probes
	// and is not terminating.
	Observe(pod *v1.Pod, status *v1.PodStatus)
	runtime.Probes
	// Ready is the result of the readiness probe. known is false before the first result.
	Ready(id string) (ok, known bool)
	// StopLivenessAndStartup reports that the pod is terminating.
	StopLivenessAndStartup(uid types.UID)
	// RemovePod reports that no container of the pod runs.
	RemovePod(uid types.UID)
	// Dirty receives a value when Take has a pod to return. Take returns the pods whose verdicts
	// changed.
	Dirty() <-chan struct{}
	Take() []types.UID
}

// Workers schedules the calls for each pod. *podworkers.Workers implements Workers. All methods are
// safe for concurrent use and return at once.
type Workers interface {
	// Sync asks for a sync of the pod and reports whether the UID is known.
	Sync(uid types.UID) (known bool)
	// StopUnknown stops a pod that only the container runtime knows. If the pod is configured by
	// then, the pod keeps running and stopping is false.
	StopUnknown(uid types.UID, namespace, name string, grace time.Duration) (stopping bool, err error)
	// Synced is closed when every source of configuration has reported. From then on an unknown UID
	// is a removed pod.
	Synced() <-chan struct{}
	// CouldHaveRunningContainers reports whether containers of the pod may run: the pod is known
	// and has not terminated, or the pod is unknown and Synced is still open.
	CouldHaveRunningContainers(uid types.UID) bool
	// ShouldPodRuntimeBeRemoved reports whether the pod has terminated or is gone.
	ShouldPodRuntimeBeRemoved(uid types.UID) bool
	// ShouldPodContentBeRemoved reports whether the remains of the pod may be removed: the pod has
	// terminated and was deleted or evicted, or the pod is gone.
	ShouldPodContentBeRemoved(uid types.UID) bool
}

// Options configure Pods.
type Options struct {
	// Runtime runs the containers. Required.
	Runtime runtime.Runtime
	// Generator configures the container specs on this node. LogRoot is required. If
	// Options.Volumes is set, podsync sets the fields Volumes and Groups.
	Generator runtime.DefaultGeneratorOptions
	// Manager executes the plans. Defaults to a Manager over Runtime and a DefaultGenerator of
	// Generator.
	Manager *runtime.Manager

	// Volumes sets up the volumes of pods. Defaults to nil: a container with volumeMounts cannot be
	// created.
	Volumes Volumes
	// Probes returns the verdicts of containers with probes. Defaults to nil: every container
	// counts as healthy.
	Probes Probes

	// Status is called with the first status of each pod, also if it equals pod.Status, and then with
	// every status that differs from the previous status. The calls for each pod are in order and
	// never concurrent. Status must not block or write to the shared pod. The status is read-only.
	// Defaults to nil.
	Status func(pod *v1.Pod, status v1.PodStatus)
	// Ended is called after the last Status, when no container of the pod runs and the pod's
	// volumes are unmounted. Ended may be called more than once. Defaults to nil.
	Ended func(pod *v1.Pod)
	// Told reports whether the receivers of a pod's status have its terminal phase, so that no later agent
	// runs the pod again. FreeDisk removes the containers and the sandbox of such a pod. Told must not
	// block. Defaults to nil: they stay until the pod is gone.
	Told func(uid types.UID) bool
	// Jitter spreads the pauses after failed calls. Defaults to adding up to half of the pause.
	Jitter func(time.Duration) time.Duration
	// Hooks extend the sync of a pod, in slice order. Defaults to none.
	Hooks []Hook
	// Logger receives failures in the background. Defaults to a silent logger.
	Logger *zap.Logger
}

// Hook extends the sync of a pod. Each field may be nil. All functions are called with the pod's
// turn, so that no two calls for the same pod overlap. The functions must not write to the pod.
type Hook struct {
	// Input changes the input of the status generator, at every stage of the pod's life (see
	// in.Stage). in.Previous is a copy whose fields may be set. Input must not block.
	Input func(pod *v1.Pod, in *podstatus.Input)
	// Around is called before a sync waits for the pod's volumes, and may add to req. undo, which
	// may be nil, is called when the sync has ended, also if a later hook failed. The undo
	// functions of several hooks are called in reverse order. An error ends the sync.
	Around func(ctx context.Context, req *runtime.SyncRequest) (undo func(), err error)
	// Synced receives the result of Manager.SyncPod before the resulting status is published.
	// Synced must not block.
	Synced func(ctx context.Context, pod *v1.Pod, result *runtime.Result)
	// Deadline returns the time at which a pod with this status has to end. ok is false if there is
	// no such time. At the earliest deadline of all hooks the Sync call in progress is interrupted,
	// and the pod becomes Failed unless the containers had ended before. The result must depend on
	// the arguments only.
	Deadline func(pod *v1.Pod, status *v1.PodStatus) (d Deadline, ok bool)
	// Release releases the hook's resources for a pod without running containers, after the pod's
	// volumes were unmounted. Hooks are released in reverse order. After an error the Release
	// functions of all hooks are called again.
	Release func(ctx context.Context, pod *v1.Pod) error
}

// withDefaults returns o with defaults filled in. The error names the invalid field.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Runtime == nil:
		return o, errors.New("podsync: Options.Runtime is required")
	case o.Volumes != nil && (o.Generator.Volumes != nil || o.Generator.Groups != nil):
		return o, errors.New("podsync: Options.Generator has Volumes or Groups beside Options.Volumes")
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Jitter == nil {
		o.Jitter = retry.AddUpToHalf
	}
	if o.Volumes != nil {
		o.Generator.Volumes = func(ctx context.Context, pod *v1.Pod, c *v1.Container) ([]runtime.Mount, error) {
			return mountsOf(ctx, o.Volumes, pod, c)
		}
		o.Generator.Groups = o.Volumes.GetExtraSupplementalGroupsForPod
	}
	generator, err := runtime.NewDefaultGenerator(o.Generator)
	if err != nil {
		return o, fmt.Errorf("podsync: Options.Generator: %w", err)
	}
	if o.Manager == nil {
		o.Manager, err = runtime.New(runtime.Options{Runtime: o.Runtime, Generator: generator, Logger: o.Logger})
	}
	return o, err
}

// mountsOf resolves the volumeMounts of a container.
func mountsOf(ctx context.Context, volumes Volumes, pod *v1.Pod, c *v1.Container) ([]runtime.Mount, error) {
	mounts := make([]runtime.Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		m := runtime.Mount{Name: c.VolumeMounts[i].Name, ContainerPath: c.VolumeMounts[i].MountPath}
		var err error
		if m.HostPath, m.ReadOnly, m.SELinuxRelabel, err = volumes.MountOf(ctx, pod, c, i); err != nil {
			return nil, fmt.Errorf("volumeMounts[%d]: %w", i, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}
