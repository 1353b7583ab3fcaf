// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"path"
)

// collection carries out the plan for a pod.
type collection struct {
	m     *Manager
	query GCQuery
	disk  *gcDisk
	stays map[SandboxID]bool // a container of the sandbox could not be removed
}

// run carries out all actions and joins the errors.
func (c *collection) run(ctx context.Context, actions []gcAction) error {
	uid, fate := actions[0].UID, actions[0].Fate
	if uid != "" && c.query.fate(uid) != fate {
		return nil // the plan is outdated
	}
	c.stays = make(map[SandboxID]bool)
	var errs []error
	for _, a := range actions {
		if ctx.Err() != nil {
			break
		}
		if err := c.do(ctx, a); err != nil && ctx.Err() == nil {
			errs = append(errs, err)
		}
	}
	if fate == PodGone && len(c.stays) == 0 && len(errs) == 0 && ctx.Err() == nil {
		c.m.forgetPod(uid)
	}
	return errors.Join(errs...)
}

func (c *collection) do(ctx context.Context, a gcAction) error {
	switch a.Op {
	case gcRemoveContainer:
		return c.container(ctx, a)
	case gcRemoveSandbox:
		return c.sandbox(ctx, a)
	case gcRemovePodLogs:
		return c.podLogs(ctx, a)
	case gcRemoveContainerLogs:
		return c.disk.removeFiles(path.Split(a.Path))
	case gcRemoveLogLink:
		return c.disk.removeLink(a.Path)
	}
	return nil
}

func (c *collection) container(ctx context.Context, a gcAction) error {
	if a.Stop {
		stopped, err := c.stop(ctx, a)
		if !stopped {
			c.stays[a.Sandbox] = true
			return err
		}
	}
	if err := gone(c.m.rt.RemoveContainer(ctx, a.Container)); err != nil {
		c.stays[a.Sandbox] = true
		return fmt.Errorf("pod %s: remove container %s (%s): %w", a.UID, a.Name, a.Container, err)
	}
	return nil
}

// stop kills an instance in an unknown state, according to its own record. If the instance turns
// out to be running, it is left alone.
func (c *collection) stop(ctx context.Context, a gcAction) (stopped bool, err error) {
	status, err := c.m.rt.PodStatus(ctx, a.UID)
	if err != nil {
		return false, fmt.Errorf("pod %s: read its status: %w", a.UID, err)
	}
	for i := range status.Containers {
		instance := &status.Containers[i]
		switch {
		case instance.ID != a.Container:
			continue
		case instance.State != StateUnknown:
			return instance.State != StateRunning, nil
		}
		pod, container := restorePod(status, instance)
		var s steps
		k := kill{
			pod: pod, container: container, instance: instance, podIPs: status.addressesOf(instance),
			reason: killUnknownState, message: "is stopped, because its state is unknown",
		}
		if c.m.killContainer(ctx, k, &s) {
			return true, nil
		}
		for _, step := range s.list {
			return false, fmt.Errorf("pod %s: %w", a.UID, step.Err)
		}
		return false, nil // interrupted
	}
	return true, nil
}

func (c *collection) sandbox(ctx context.Context, a gcAction) error {
	if c.stays[a.Sandbox] {
		return nil // removing the sandbox would remove its containers
	}
	err := gone(c.m.rt.StopSandbox(ctx, a.Sandbox))
	if err == nil {
		err = gone(c.m.rt.RemoveSandbox(ctx, a.Sandbox))
	}
	if err != nil {
		return fmt.Errorf("pod %s: remove sandbox %s: %w", a.UID, a.Sandbox, err)
	}
	return nil
}

// podLogs removes a pod's log folder if the runtime has no other remains of the pod. The fate of
// the pod is checked last: a returning pod first makes a sandbox, which takes longer than the
// removal.
func (c *collection) podLogs(ctx context.Context, a gcAction) error {
	status, err := c.m.rt.PodStatus(ctx, a.UID)
	if err != nil {
		return fmt.Errorf("pod %s: read its status: %w", a.UID, err)
	}
	if len(status.Containers)+len(status.Sandboxes) > 0 || c.query.fate(a.UID) != PodGone {
		return nil
	}
	return c.disk.removeFolder(a.Path)
}
