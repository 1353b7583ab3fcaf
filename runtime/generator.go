// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Generator computes the specs of sandboxes and containers from a pod. Volumes, environment
// sources, DNS and log paths come from the Generator, and the manager knows none of them. Calls for
// different containers of a pod may be concurrent. The manager retries after an error. The text of
// the error becomes the message of the waiting reason CreateContainerConfigError or
// CreatePodSandboxError. An error therefore names the field, and never contains a value that may be
// secret.
type Generator interface {
	Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (SandboxSpec, error)
	// Container returns the spec of a container. cleanup may be nil. The manager calls cleanup once
	// at the end of the start, after a success and after a failure.
	Container(ctx context.Context, pod *v1.Pod, ref Ref, in ContainerInput) (spec ContainerSpec, cleanup func(), err error)
}

// RestartCounter is an optional ability of a Generator: to derive the restart count of the next
// instance from remains on disk (log files), for a container without records. The result is 0 if
// there are no remains.
type RestartCounter interface {
	NextRestartCount(pod *v1.Pod, container string) int32
}

// AddressUser is an optional ability of a Generator: to tell that ContainerInput.PodIPs is not used for
// a pod. The manager then starts the containers without reading the addresses of a new sandbox, unless
// a container has lifecycle hooks.
type AddressUser interface {
	UsesAddresses(pod *v1.Pod) bool
}

// ContainerInput has the manager's contributions to the spec of a container.
type ContainerInput struct {
	RestartCount int32         // of the new instance
	Hash         string        // for ContainerSpec.Hash
	RestartDelay time.Duration // delay before a replacement of the new instance; see Backoff
	PodIPs       []string      // of the current sandbox, primary first; may be empty
}

// annotationRestartDelay is the delay after the end of this instance before its replacement may
// start, as a Go duration. With it, crash-loop back-off survives a restart of the agent. The key is
// keelson's own.
const annotationRestartDelay = "keelson.dev/restart-delay"
