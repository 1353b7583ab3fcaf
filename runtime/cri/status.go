// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
)

// stateOf translates a CRI state; unknown values become StateUnknown.
func stateOf(s api.ContainerState) runtime.State {
	switch s {
	case api.ContainerState_CONTAINER_CREATED:
		return runtime.StateCreated
	case api.ContainerState_CONTAINER_RUNNING:
		return runtime.StateRunning
	case api.ContainerState_CONTAINER_EXITED:
		return runtime.StateExited
	default:
		return runtime.StateUnknown
	}
}

// timeOf returns the zero time for an unset value. CRI-O sends the zero time's negative
// nanoseconds.
func timeOf(nanos int64) time.Time {
	if nanos <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// neverRan reports whether an exited container never ran through no fault of its own: it was
// stopped before its start, or its start was cut short by the end of the call or of the agent.
// Runtimes call such a container exited, package runtime calls it created. No runtime starts the
// container again.
func neverRan(st *api.ContainerStatus) bool {
	if st.GetState() != api.ContainerState_CONTAINER_EXITED || st.GetStartedAt() > 0 {
		return false
	}
	return st.GetReason() != runtime.ReasonStartError || cutShort(st.GetMessage())
}

// cutShort reports whether the message of a failed start names the end of the caller as the cause.
func cutShort(message string) bool {
	return strings.Contains(message, context.Canceled.Error()) || strings.Contains(message, context.DeadlineExceeded.Error())
}

// containerOf translates one status. message is the termination message.
func containerOf(name, sandbox string, st *api.ContainerStatus, message string) runtime.ContainerStatus {
	out := runtime.ContainerStatus{
		ID:        runtime.ContainerID{Runtime: name, ID: st.GetId()},
		Name:      cmp.Or(st.GetLabels()[containermeta.LabelContainerName], st.GetMetadata().GetName()),
		Sandbox:   runtime.SandboxID(sandbox),
		State:     stateOf(st.GetState()),
		Image:     cmp.Or(st.GetImage().GetUserSpecifiedImage(), st.GetImage().GetImage()),
		ImageID:   cmp.Or(st.GetImageId(), st.GetImageRef()),
		ImageRef:  st.GetImageRef(),
		LogPath:   st.GetLogPath(),
		CreatedAt: timeOf(st.GetCreatedAt()),
		Resources: resourcesOf(st.GetResources().GetLinux()),
		User:      userOf(st.GetUser().GetLinux()),
	}
	out.Annotations, out.Hash, out.RestartCount = recordOf(st.GetAnnotations(), st.GetMetadata().GetAttempt())
	if neverRan(st) {
		out.State = runtime.StateCreated
	}
	if out.State != runtime.StateCreated {
		out.StartedAt = timeOf(st.GetStartedAt())
	}
	if out.State == runtime.StateExited {
		out.FinishedAt = later(timeOf(st.GetFinishedAt()), out.StartedAt)
		out.ExitCode = st.GetExitCode()
		out.Reason = exitReason(st.GetReason(), st.GetExitCode())
		out.Message = message
	}
	return out
}

// recordOf reads the annotations written at the container's creation. The restart count is the
// kubelet's annotation, or the attempt in the container's name.
func recordOf(annotations map[string]string, attempt uint32) (rest map[string]string, hash string, restarts int32) {
	rest = maps.Clone(annotations)
	hash, own := rest[annotationSpecHash]
	if !own {
		hash = rest[containermeta.AnnotationHash]
	}
	delete(rest, annotationSpecHash)
	n, err := strconv.ParseInt(rest[containermeta.AnnotationRestartCount], 10, 32)
	if err != nil || n < 0 {
		n = int64(min(attempt, 1<<31-1))
	}
	return rest, hash, int32(n)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// exitReason returns the runtime's reason, or a default by exit code.
func exitReason(reason string, code int32) string {
	switch {
	case reason != "":
		return reason
	case code == 0:
		return runtime.ReasonCompleted
	default:
		return runtime.ReasonError
	}
}

// resourcesOf are the limits in force; nil where the runtime does not tell.
func resourcesOf(r *api.LinuxContainerResources) *v1.ResourceRequirements {
	if r == nil {
		return nil
	}
	out := &v1.ResourceRequirements{Limits: v1.ResourceList{}, Requests: v1.ResourceList{}}
	if m := milliOfShares(r.GetCpuShares()); m > 0 {
		out.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(m, resource.DecimalSI)
	}
	if m := milliOfQuota(r.GetCpuQuota(), r.GetCpuPeriod()); m > 0 {
		out.Limits[v1.ResourceCPU] = *resource.NewMilliQuantity(m, resource.DecimalSI)
	}
	if b := r.GetMemoryLimitInBytes(); b > 0 {
		out.Limits[v1.ResourceMemory] = *resource.NewQuantity(b, resource.BinarySI)
	}
	return out
}

func userOf(u *api.LinuxContainerUser) *v1.ContainerUser {
	if u == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: u.GetUid(), GID: u.GetGid(), SupplementalGroups: slices.Clone(u.GetSupplementalGroups()),
	}}
}

// sandboxOf translates one status.
func sandboxOf(st *api.PodSandboxStatus) runtime.SandboxStatus {
	out := runtime.SandboxStatus{
		ID:          runtime.SandboxID(st.GetId()),
		Attempt:     st.GetMetadata().GetAttempt(),
		Ready:       st.GetState() == api.PodSandboxState_SANDBOX_READY,
		HostNetwork: isHostNetwork(st),
		CreatedAt:   timeOf(st.GetCreatedAt()),
	}
	if !out.HostNetwork && st.GetNetwork() != nil {
		out.NetworkKnown = true
		out.IPs = sandboxIPs(st)
	}
	return out
}

// sandboxIPs returns the addresses, primary first; nil if any address is malformed.
func sandboxIPs(st *api.PodSandboxStatus) []string {
	if isHostNetwork(st) || st.GetNetwork().GetIp() == "" {
		return nil
	}
	texts := []string{st.GetNetwork().GetIp()}
	for _, a := range st.GetNetwork().GetAdditionalIps() {
		texts = append(texts, a.GetIp())
	}
	var out []string
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil
		}
		out = append(out, addr.String())
	}
	return out
}

// messageFile is the host's path of the container's termination message; "" for a container without
// one.
func messageFile(st *api.ContainerStatus) string {
	target := filepath.Clean(cmp.Or(st.GetAnnotations()[containermeta.AnnotationTerminationMessagePath], v1.TerminationMessagePathDefault))
	for _, m := range st.GetMounts() {
		if filepath.Clean(m.GetContainerPath()) == target {
			return m.GetHostPath()
		}
	}
	return ""
}

// podUID returns the UID of the labels' pod; "" for objects not made by an agent.
func podUID(labels map[string]string) types.UID { return types.UID(labels[containermeta.LabelPodUID]) }

// newestFirst sorts a pod's sandboxes and containers in the order required by package runtime.
func newestFirst(st *runtime.PodStatus) {
	sorted.By(st.Sandboxes, func(a, b runtime.SandboxStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	sorted.By(st.Containers, func(a, b runtime.ContainerStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.ID, a.ID.ID))
	})
}
