// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// Which selects an instance of a container.
type Which uint8

// The instances.
const (
	Current  Which = iota // the running instance, else the last instance that ran
	Previous              // the instance in lastState
)

// UnavailableError reports that a container has no instance to read logs from, and the reason. The
// request is wrong or too early: HTTP 400.
type UnavailableError struct {
	Container string
	Why       string // after "container … ", for people
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("container %q %s", e.Container, e.Why) }

// Choose returns the instance of a container whose logs are read, by the rules of the 1.36 kubelet:
// the running instance, else the last terminated instance, in state or last state. For Previous,
// Choose returns the instance of the last state. The error is an *UnavailableError or the parse
// error of an invalid ID.
func Choose(status *v1.PodStatus, container string, which Which) (runtime.ContainerID, error) {
	c := find(status, container)
	if c == nil {
		return runtime.ContainerID{}, &UnavailableError{container, "is not available"}
	}
	id, why := choose(c, which)
	if id == "" {
		return runtime.ContainerID{}, &UnavailableError{container, why}
	}
	parsed, err := runtime.ParseContainerID(id)
	if err != nil {
		return parsed, fmt.Errorf("container %q: %w", container, err)
	}
	return parsed, nil
}

// find returns the status of a container of any kind, or nil.
func find(status *v1.PodStatus, name string) *v1.ContainerStatus {
	for c := range podfacts.AllStatuses(status) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func choose(c *v1.ContainerStatus, which Which) (id, why string) {
	last := ""
	if t := c.LastTerminationState.Terminated; t != nil {
		last = t.ContainerID
	}
	state := c.State
	switch {
	case which == Previous:
		return last, "has no previous instance that terminated"
	case state.Running != nil:
		return c.ContainerID, "is running, but its ID is not known"
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, ""
	case state.Terminated != nil || c.LastTerminationState.Terminated != nil:
		return last, "is terminated"
	case state.Waiting == nil:
		return "", "is waiting to start: no logs yet"
	}
	switch state.Waiting.Reason {
	case runtime.ErrImagePull.Error():
		return "", "is waiting to start: image can't be pulled"
	case runtime.ErrImagePullBackOff.Error():
		return "", "is waiting to start: trying and failing to pull image"
	case "":
		return "", "is waiting to start: no logs yet"
	default:
		return "", "is waiting to start: " + state.Waiting.Reason
	}
}
