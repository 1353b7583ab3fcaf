// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

var errRebooted = errors.New("the machine was rebooted")

// Kill makes the newest running instance of a container exit at once with the given code. The error
// is ErrNotFound if no instance runs.
func (w *World) Kill(uid types.UID, name string, code int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.running(uid, name)
	if err != nil {
		return err
	}
	w.exit(c, code, "")
	w.hint(uid)
	return nil
}

// Replace simulates a restart of a container by a program other than the agent. The newest running
// instance is killed. A new instance with the next RestartCount and a new log file runs in the same
// sandbox.
// The error is ErrNotFound if no instance runs.
func (w *World) Replace(uid types.UID, name string) (runtime.ContainerID, error) {
	c, err := w.replace(uid, name)
	if err != nil {
		return runtime.ContainerID{}, err
	}
	return w.idOf(c), w.writeLog(c.spec.LogPath, c.script.Log, c.output)
}

func (w *World) replace(uid types.UID, name string) (*container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, err := w.running(uid, name)
	if err != nil {
		return nil, err
	}
	spec, script, output := old.spec, old.script, old.output
	w.kill(old)
	spec.RestartCount++
	spec.LogPath = nextLog(spec.LogPath, spec.RestartCount)
	c := w.addContainer(old.sandbox, spec)
	c.script, c.output = script, output
	w.event(c.call(OpReplaced), c.id, "instead of "+old.id)
	w.run(c)
	w.hint(uid)
	return c, nil
}

// LoseTrack makes the newest running instance of a container unknown to the backend. The instance
// runs on and is reported as StateUnknown until its exit. The error is ErrNotFound if no instance
// runs.
func (w *World) LoseTrack(uid types.UID, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.running(uid, name)
	if err != nil {
		return err
	}
	c.lost = true
	w.event(c.call(OpLostTrack), c.id, "")
	w.hint(uid)
	return nil
}

// LoseRecords removes every record of a container, like an overeager cleanup. Running instances are
// killed. Logs are kept. The error is ErrNotFound if the container has no record.
func (w *World) LoseRecords(uid types.UID, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.mu.pods[uid]
	if p == nil {
		return errNotFound("pod", string(uid))
	}
	found := false
	for _, c := range slices.Clone(p.containers) {
		if c.spec.Name != name {
			continue
		}
		found = true
		w.kill(c)
		w.event(c.call(OpLostRecords), c.id, "")
		w.dropContainer(c)
	}
	if !found {
		return errNotFound("container", name)
	}
	w.hint(uid)
	return nil
}

// SandboxLosesIP removes the IP from the newest sandbox of a pod. The error is ErrNotFound if the
// pod has no sandbox.
func (w *World) SandboxLosesIP(uid types.UID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.mu.pods[uid]
	if p == nil || len(p.sandboxes) == 0 {
		return errNotFound("sandbox of pod", string(uid))
	}
	s := p.sandboxes[len(p.sandboxes)-1]
	s.ip = ""
	w.event(s.call(OpLostIP), string(s.id), "")
	w.hint(uid)
	return nil
}

// Reboot reboots the machine, and takes no time. Afterwards no sandbox is ready. Running containers have
// exited with code 255 and reason "Unknown" (as containerd reports). Created containers are still
// created. Watch streams break. The caller drops the Runtime and makes a new Runtime.
func (w *World) Reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event(Call{Op: OpRebooted}, "", "")
	for _, p := range w.mu.order {
		for _, c := range p.containers {
			if c.state == runtime.StateRunning {
				w.exit(c, 255, "Unknown")
			}
		}
		for _, s := range p.sandboxes {
			s.ready = false
		}
	}
	w.breakStreams(errRebooted)
}

// Ready reports whether a running instance is ready according to Script.ReadyAfter, for probe
// handlers of a test.
func (w *World) Ready(id runtime.ContainerID) bool {
	c := w.find(id)
	if c == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.ready()
}

// Printed returns the output of a container.
func (w *World) Printed(id runtime.ContainerID) []Line {
	c := w.find(id)
	if c == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.script == nil {
		return nil
	}
	return joinOutput(c.script.Log, c.output)
}

// running returns the newest running instance. World.mu is held.
func (w *World) running(uid types.UID, name string) (*container, error) {
	if p := w.mu.pods[uid]; p != nil {
		if c := p.newestRunning(name); c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("running container %q of pod %q: %w", name, uid, runtime.ErrNotFound)
}
