// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Generator turns a pod into what a backend is asked to make. It is where
// volumes, environment sources, DNS and log paths come from; the manager knows
// none of them. Calls for different containers of one pod may be concurrent.
// Errors are retried with the pod; their text becomes the message of the
// waiting reason CreateContainerConfigError or CreatePodSandboxError, so it
// names the field and never a value that may be secret.
type Generator interface {
	Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (SandboxSpec, error)
	// Container may return a cleanup, called once when the start has ended,
	// whatever its outcome; nil = nothing to clean up.
	Container(ctx context.Context, pod *v1.Pod, ref Ref, in ContainerInput) (spec ContainerSpec, cleanup func(), err error)
}

// RestartCounter is an optional ability of a Generator: to know from what is
// left on disk (log files) how often a container has been started, where its
// records are gone. It returns the restart count of the next instance, 0 if
// nothing is known.
type RestartCounter interface {
	NextRestartCount(pod *v1.Pod, container string) int32
}

// ContainerInput is what the manager adds to a container's spec.
type ContainerInput struct {
	RestartCount int32         // of the instance to be made
	Hash         string        // to be put in ContainerSpec.Hash
	RestartDelay time.Duration // how long its replacement will wait; see Backoff
	PodIPs       []string      // of the current sandbox, primary first; may be empty
}

// annotationRestartDelay is the delay after the end of this instance before its replacement may
// start, as a Go duration. With it, crash-loop back-off survives a restart of the agent. The key is
// keelson's own.
const annotationRestartDelay = "keelson.dev/restart-delay"
