// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// unit is the work for a container in a pass, done by a single goroutine: at most a kill, then at
// most a start.
type unit struct {
	steps
	kill  *Kill
	start *Start
	// again: an ended instance does not mean that the container has ended. Either the instance is
	// stopped in order to start the container again, or its successor never ran and is replaced.
	again bool
	// outdated: the start was cancelled because the pod has changed since the plan.
	outdated bool
	// hook is the postStart hook in progress; nil: none.
	hook atomic.Pointer[startHook]
}

// startHook is a postStart hook in progress.
type startHook struct {
	id     ContainerID
	cancel context.CancelCauseFunc
}

// errEndedDuringHook is the cause of a hook's end by endHooks.
var errEndedDuringHook = errors.New("the container ended before its postStart hook")

// name is the name of the unit's container.
func (u *unit) name() string {
	if u.start != nil {
		return u.start.Name
	}
	return u.kill.Name
}

// runUnits carries out the plan's kills and starts, with a goroutine per container. Removals
// (RestartAll) come last and in order, so that the triggering instance still exists if the pass is
// interrupted.
func (p *pass) runUnits(ctx context.Context) {
	c := &crew{pass: p, ended: make(chan *unit), busy: make(map[string]*unit), retry: make(map[string]time.Time)}
	for _, u := range p.units() {
		c.launch(u, func() { p.runUnit(ctx, u) })
	}
	if len(p.actions.Resize) > 0 {
		c.resizes = true
		c.launch(nil, func() { p.resize(ctx) })
	}
	c.attend(ctx)
	p.list = append(p.list, c.steps()...)
	p.outdated = slices.ContainsFunc(c.done, func(u *unit) bool { return u.outdated })
	if !p.failed() && ctx.Err() == nil {
		p.removeKilled(ctx)
	}
}

// crew is the set of units in progress. Only SyncPod's own goroutine uses a crew. The launched
// goroutines do not.
type crew struct {
	pass    *pass
	ended   chan *unit
	running int
	done    []*unit              // in the order of their ends
	busy    map[string]*unit     // containers in progress
	retry   map[string]time.Time // failed containers: time of the next try
	looked  time.Time            // the last look that has read the pod
	resizes bool                 // the resize in place has begun, and has not succeeded
}

// launch runs work in a goroutine. u is the unit of the work, or nil.
func (c *crew) launch(u *unit, work func()) {
	if u != nil {
		c.busy[u.name()] = u
	}
	c.running++
	go func() {
		work()
		c.ended <- u
	}()
}

// lookDelay is the time between the end of a container's work and the next look at the pod. Most
// containers of a pod end their work at about the same time.
const lookDelay = 50 * time.Millisecond

// restartLook is the time between two looks while a container is being restarted. Progress then
// shows the caller how long the container has not been running.
const restartLook = time.Second

// attend waits for all units. While some units are slow, attend handles the other containers.
func (c *crew) attend(ctx context.Context) {
	var look <-chan time.Time // of the next look
	for c.running > 0 {
		select {
		case u := <-c.ended:
			c.end(u)
			look = time.After(lookDelay)
		case <-c.pass.req.Changed:
			c.look(ctx)
			look = time.After(lookDelay)
		case <-look:
			c.look(ctx)
			if at := c.earliest(); !at.IsZero() {
				look = time.After(max(time.Until(at), lookDelay))
			} else if len(c.restarting()) > 0 {
				look = time.After(restartLook)
			}
		}
	}
}

func (c *crew) end(u *unit) {
	c.running--
	if u == nil {
		c.resizes = c.pass.resized.failed()
		return
	}
	delete(c.busy, u.name())
	delete(c.retry, u.name())
	for i := range u.list {
		if e := u.list[i].Err; e != nil && e.RetryAt.IsZero() {
			c.retry[u.name()] = time.Now().Add(lastRetry)
		} else if e != nil {
			c.retry[u.name()] = e.RetryAt
		}
	}
	c.done = append(c.done, u)
}

// earliest returns the time of the next try after the last look; zero for none.
func (c *crew) earliest() time.Time {
	var first time.Time
	for _, at := range c.retry {
		if at.After(c.looked) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// look reads the pod, reports progress, and starts new work for regular containers without work in
// progress. Work for the whole pod is left to the next pass.
func (c *crew) look(ctx context.Context) {
	p := c.pass
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	status, err := p.m.rt.PodStatus(ctx, p.pod.UID)
	if err != nil {
		return // the pass reports the error
	}
	c.looked = began
	c.endHooks(status)
	if p.req.Progress != nil {
		p.req.Progress(Progress{Status: status, Done: append(slices.Clone(p.list), c.steps()...), Restarting: c.restarting(), Resizing: c.resizing()})
	}
	if p.resets() {
		return // no start before all removals
	}
	actions := Plan(p.m.planInput(p.req, status))
	if actions.KillPod {
		return
	}
	side := &pass{m: p.m, req: p.req, pod: p.pod, status: status, sandbox: p.sandbox, ips: p.ips, began: began}
	if p.m.images != nil {
		side.images = p.m.images.forPass(p.req)
	}
	for _, k := range actions.Kill {
		// A container that the pod has not any more is in GroupRegular, too.
		if ref, _ := Find(p.pod, k.Name); ref.Group == GroupRegular && c.free(k.Name) && !k.Remove {
			side.actions.Kill = append(side.actions.Kill, k)
		}
	}
	for _, s := range actions.Start {
		if s.Ref.Group == GroupRegular && c.free(s.Name) && !c.initRunsAgain() {
			side.actions.Start = append(side.actions.Start, s)
		}
	}
	for _, u := range side.units() {
		c.launch(u, func() { side.runUnit(ctx, u) })
	}
}

// endHooks ends the postStart hooks of containers that have ended: such a hook may never return.
func (c *crew) endHooks(status *PodStatus) {
	for _, u := range c.busy {
		h := u.hook.Load()
		if h == nil {
			continue
		}
		if i := slices.IndexFunc(status.Containers, func(s ContainerStatus) bool { return s.ID == h.id }); i >= 0 && status.Containers[i].State == StateExited {
			h.cancel(errEndedDuringHook)
		}
	}
}

// resets reports whether the plan restarts all containers of the pod.
func (p *pass) resets() bool {
	return slices.ContainsFunc(p.actions.Kill, func(k Kill) bool { return k.Remove })
}

// resizing is Progress.Resizing.
func (c *crew) resizing() bool {
	if c.resizes || c.pass.actions.ResizeWaits {
		return true
	}
	for _, u := range c.busy {
		if u.kill != nil && u.kill.Reason == killResize {
			return true
		}
	}
	return false
}

// restarting returns the containers in progress that are stopped in order to be started again.
func (c *crew) restarting() (names []string) {
	for name, u := range c.busy {
		if u.again {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// initRunsAgain reports whether an init container is being stopped in order to run again. Its exit
// then does not complete init.
func (c *crew) initRunsAgain() bool {
	for _, u := range c.busy {
		if u.again && u.start.Ref.Group == GroupInit && !podfacts.IsSidecar(u.start.Ref.Container(c.pass.pod)) {
			return true
		}
	}
	return false
}

// free reports whether work for a container may begin: no work is in progress, and the container
// has not failed in this pass, or the time of its next try has come.
func (c *crew) free(name string) bool {
	return c.busy[name] == nil && !c.retry[name].After(c.looked)
}

// steps returns the completed steps. Of several tries of a container only the last counts.
func (c *crew) steps() []Step {
	last := make(map[string]*unit, len(c.done))
	for _, u := range c.done {
		last[u.name()] = u
	}
	var all []Step
	for _, u := range c.done {
		if last[u.name()] == u || !u.failed() {
			all = append(all, u.list...)
		}
	}
	return all
}

func (p *pass) units() (units []*unit) {
	byName := make(map[string]*unit, len(p.actions.Start)+len(p.actions.Kill))
	for i := range p.actions.Kill {
		k := &p.actions.Kill[i]
		// Older instances of a name (RestartAll) are separate units.
		u := &unit{kill: k}
		units = append(units, u)
		byName[k.Name] = u
	}
	for i := range p.actions.Start {
		s := &p.actions.Start[i]
		u := byName[s.Name]
		if u == nil {
			u = &unit{}
			units = append(units, u)
		}
		u.start = s
		latest := p.status.Latest(s.Name)
		u.again = u.kill != nil || latest != nil && latest.State == StateCreated
	}
	return units
}

func (p *pass) runUnit(ctx context.Context, u *unit) {
	if u.kill != nil {
		c := p.instance(u.kill.ID)
		mayRun := c.State == StateRunning || c.State == StateUnknown // else a removal follows
		if mayRun && !(p.killUnit(ctx, u, c) && (u.start == nil || p.isStillDue(ctx, u))) {
			return
		}
	}
	if u.start != nil && ctx.Err() == nil {
		p.start(ctx, u)
	}
}

// isStillDue reports whether the start of u may continue after a slow kill or pull: according to a
// new status, no instance of the container runs, and the sidecars ahead of it are up. If the result
// is false, the next pass decides. A container that was stopped in order to restart is started even
// if its exit would end it for good, because the next pass would consider it finished.
func (p *pass) isStillDue(ctx context.Context, u *unit) bool {
	status, err := p.m.rt.PodStatus(ctx, p.pod.UID)
	if err != nil {
		u.outdated = u.kill == nil
		return !u.outdated // a container killed for a restart is started
	}
	runs := slices.ContainsFunc(status.Running(), func(c *ContainerStatus) bool { return c.Name == u.start.Name })
	goesOn := ShouldRestart(p.pod, u.start.Ref.Container(p.pod), status.Latest(u.start.Name))
	u.outdated = runs || goesOn && heldAt(p.m.planInput(p.req, status), u.start.Ref)
	return !u.outdated
}

// planLasts is the age of a pass up to which a start behind a sidecar does not need a new status.
const planLasts = time.Second

func (p *pass) killUnit(ctx context.Context, u *unit, c *ContainerStatus) bool {
	pod, container := restorePod(p.status, c) // the pod may have no such container any more
	if ref, ok := Find(p.pod, c.Name); ok {
		pod, container = p.pod, ref.Container(p.pod)
	}
	k := kill{pod: pod, container: container, instance: c, podIPs: p.status.addressesOf(c), reason: u.kill.Reason, message: u.kill.Message}
	if u.kill.Reason == killRestartAll {
		zero := minGracePeriod
		k.override, k.skipHook = &zero, true
	}
	return p.m.killContainer(ctx, k, &u.steps)
}

// instance returns the instance with the ID, or nil. The instances of kills exist.
func (p *pass) instance(id ContainerID) *ContainerStatus {
	for i := range p.status.Containers {
		if p.status.Containers[i].ID == id {
			return &p.status.Containers[i]
		}
	}
	return nil
}

func (p *pass) removeKilled(ctx context.Context) {
	for i := range p.actions.Kill {
		k := &p.actions.Kill[i]
		if !k.Remove {
			continue
		}
		p.m.unsee(p.pod.UID) // containers whose records are lost run again, too
		c := p.instance(k.ID)
		p.m.remember(p.pod.UID, ended(*c)) // before the removal: a failed call may have removed the record
		if !p.remove(ctx, c) {
			return
		}
		p.m.log.Debug("removed a container to restart it with its pod", zap.String("pod", podName(p.pod)), zap.String("container", k.Name))
	}
}
