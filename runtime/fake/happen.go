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

// Kill lets the newest running instance of a container die by itself, now and
// with this code. It is an ErrNotFound if none runs.
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

// Replace lets somebody else restart a container behind the agent's back: its
// newest running instance is killed, and a new one with the next RestartCount
// runs in the same sandbox, with a log file of its own. It is an ErrNotFound if none
// runs.
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

// LoseTrack makes the newest running instance of a container unknown to the
// backend: it runs on, but is reported as StateUnknown until it exits. It is an
// ErrNotFound if none runs.
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

// LoseRecords removes every record of a container, as somebody who cleans up
// too much does; what of it still ran is killed. Logs stay. It is an
// ErrNotFound if there is no record.
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

// SandboxLosesIP takes the IP from the newest sandbox of a pod. It is an
// ErrNotFound if there is no sandbox.
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

// Reboot is a reboot of the machine that takes no time: no sandbox is ready,
// what ran has exited with code 255 and reason "Unknown" (as containerd reports
// it), what was created is still created. Watch streams break. The caller drops
// the Runtime and makes a new one.
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

// Ready reports whether a running instance is ready by its Script.ReadyAfter,
// for probe handlers of a test.
func (w *World) Ready(id runtime.ContainerID) bool {
	c := w.find(id)
	if c == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.ready()
}

// Printed returns what a container printed.
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

// running finds the newest running instance. World.mu is held.
func (w *World) running(uid types.UID, name string) (*container, error) {
	if p := w.mu.pods[uid]; p != nil {
		if c := p.newestRunning(name); c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("running container %q of pod %q: %w", name, uid, runtime.ErrNotFound)
}
