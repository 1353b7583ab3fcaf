// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// calm ends all that is wrong, waits, and judges what every wanted pod has come
// to: none is lost, the latest spec has won, and what is published is true.
func (p *player) calm(d time.Duration) error {
	if err := p.quiet(); err != nil {
		return err
	}
	p.sleep(d)
	err := p.settled(d)
	for range secondLooks {
		if err == nil {
			break
		}
		p.sleep(beforeSecondLook)
		err = p.settled(d)
	}
	return err
}

// What is published is behind what runs by the latencies of the runtime and of the API
// server, a second each. A container that crashes for ever may do so at the moment of
// judgement; then its back-off is five minutes, and the next looks see it at rest. What
// is really wrong still is by then.
const (
	secondLooks      = 3
	beforeSecondLook = 5 * time.Second
)

// settled judges every pod.
func (p *player) settled(d time.Duration) error {
	var errs []error
	wanted := p.everyWanted()
	for _, pod := range wanted {
		if err := p.converged(pod); err != nil {
			errs = append(errs, fmt.Errorf("after %v of quiet, pod %s (%s): %w", d, pod.Name, pod.UID, err))
		}
	}
	return errors.Join(append(append(errs, p.nothingElse(wanted)), p.orphanedMirrors()...)...)
}

// quiet ends all that is wrong.
func (p *player) quiet() error {
	p.clear("")
	p.volumes("work")
	if p.depot != nil {
		p.depot.registry("up")
		p.node.history.outage("registry", false)
	}
	if _, there := p.keys["extra"]; !there {
		p.setKey("extra", "1", true)
	}
	p.node.static.feel(Talkative)
	p.node.api.supply.feel(Talkative)
	p.node.ResumeAgent()
	p.bury()
	if p.node.life != nil {
		p.node.life.lease.set(nil)
	}
	p.sprung = nil
	return p.node.startAgent()
}

// everyWanted are the pods that should be there.
func (p *player) everyWanted() (pods []*v1.Pod) {
	pods = append(pods, p.wanted...)
	for _, pod := range p.latest {
		if stored := p.server.Get(pod.UID); stored != nil {
			pods = append(pods, stored)
		}
	}
	return pods
}

// converged judges one wanted pod by what really runs, and by what is published.
func (p *player) converged(pod *v1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return errors.New("it was deleted, and is still on the API server")
	}
	status := p.published(pod.UID)
	if status == nil {
		return errors.New("it is lost: the agent does not know it")
	}
	truth := p.truth(pod.UID)
	if err := errors.Join(p.apiKnows(pod, status), p.mirrored(pod, status)); err != nil {
		return err
	}
	if over(status.Phase) {
		return errors.Join(rightlyOver(pod, status, truth), conditionsFit(pod, status, truth))
	}
	return errors.Join(p.works(pod, status, truth), truthful(status, truth), consistent(pod, status), p.countsRestarts(pod, status),
		phaseFits(pod, status, truth), conditionsFit(pod, status, truth), containersFit(status, truth), p.probesFit(pod, status, truth),
		fieldsFit(pod, status, truth), inTime(pod, status, time.Now()), resized(pod, status, truth))
}

func over(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

func (p *player) published(uid types.UID) *v1.PodStatus {
	for _, pod := range p.node.assembly.Pods() {
		if pod.UID == uid {
			return &pod.Status
		}
	}
	return nil
}

func (p *player) truth(uid types.UID) *runtime.PodStatus {
	for _, status := range p.node.World.Truth() {
		if status.UID == uid {
			return status
		}
	}
	return &runtime.PodStatus{UID: uid}
}

// apiKnows: what the agent has published has arrived.
func (p *player) apiKnows(pod *v1.Pod, status *v1.PodStatus) error {
	if stored := p.server.Get(pod.UID); stored != nil {
		return heard(pod, stored, status)
	}
	return nil
}

// heard: the API server has a status for a pod, in its object for it.
func heard(pod, stored *v1.Pod, status *v1.PodStatus) error {
	// After a reboot init comes first and the pod is Pending; on the API server no phase
	// goes back from Running (package statusmanager).
	waits := stored.Status.Phase == v1.PodRunning && status.Phase == v1.PodPending
	// Somebody and the agent may have declared it over at the same time. The API server
	// holds on to the first of them.
	if stored.Status.Reason == declaredFailed && over(status.Phase) {
		return nil
	}
	if stored.Status.Phase != status.Phase && !waits {
		return fmt.Errorf("the API server has phase %q, the agent %q", stored.Status.Phase, status.Phase)
	}
	if over(status.Phase) {
		return nil // what is not known of containers then is put in words on the way
	}
	for _, list := range [][2][]v1.ContainerStatus{
		{stored.Status.InitContainerStatuses, status.InitContainerStatuses}, {stored.Status.ContainerStatuses, status.ContainerStatuses},
	} {
		for i := range list[1] {
			have := containerStatus(&v1.PodStatus{ContainerStatuses: list[0]}, list[1][i].Name)
			if have != nil && initDone(pod, have) {
				continue
			}
			if have == nil || have.RestartCount != list[1][i].RestartCount || have.ContainerID != list[1][i].ContainerID ||
				(have.State.Waiting == nil) != (list[1][i].State.Waiting == nil) {
				return fmt.Errorf("the API server has not got the latest status of container %s: %+v instead of %+v", list[1][i].Name, have, list[1][i])
			}
		}
	}
	return nil
}

// initDone: the API server has an init container as ended for good. A new sandbox runs
// it again, but API servers take no such container back from its end, and package
// statusmanager does not try to.
func initDone(pod *v1.Pod, stored *v1.ContainerStatus) bool {
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways || stored.State.Terminated == nil {
		return false
	}
	done := stored.State.Terminated.ExitCode == 0 || pod.Spec.RestartPolicy == v1.RestartPolicyNever
	return done && slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == stored.Name && !podfacts.IsSidecar(&c)
	})
}

// rightlyOver: a pod that has ended had a reason to, and runs nothing.
func rightlyOver(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	if running := truth.Running(); len(running) > 0 {
		return fmt.Errorf("it is %s, and container %s is %s", status.Phase, running[0].Name, running[0].State)
	}
	if status.Reason != "" {
		return nil // rejected, declared to be over, or stopped with the agent
	}
	initFails := slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return policyOf(pod, &c) == v1.RestartPolicyNever })
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways && !initFails && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return policyOf(pod, &c) == v1.RestartPolicyAlways }) {
		return fmt.Errorf("it is %s, and its restart policy is Always", status.Phase)
	}
	return phaseFits(pod, status, truth)
}

// A container that may not run right now is in back-off, which is at most five
// minutes; half a minute is for the agent to act.
const patience = 5*time.Minute + 30*time.Second

// works: each container that should run does, with the spec that is wanted, or was
// tried not long ago.
func (p *player) works(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		if active := truth.Active(c.Name); !sidecar && active != nil && active.State == runtime.StateExited && !active.Failed() {
			continue
		}
		if !sidecar && initPast(pod, i, truth) {
			continue
		}
		if p.depot.neverHas(c) {
			return nil
		}
		if err := p.tried(pod, c, truth, sidecar); err != nil {
			return err
		}
		if !sidecar || !p.steady(c, truth.Active(c.Name)) {
			return nil // the others have to wait for it
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if p.depot.neverHas(c) {
			continue
		}
		if (truth.Latest(c.Name) == nil && p.lostRecords(pod, c) || madeLate(truth, c)) && runtime.Finished(pod, status, c.Name, truth.Latest(c.Name)) {
			continue
		}
		if err := p.tried(pod, c, truth, policyOf(pod, c) == v1.RestartPolicyAlways); err != nil {
			return err
		}
	}
	return nil
}

// steady: the sidecar runs, has passed its startup probe, and has done so for long enough
// that what had to wait for it, and was in back-off when it ran the last time, has been
// tried.
func (p *player) steady(c *v1.Container, active *runtime.ContainerStatus) bool {
	return active != nil && active.State == runtime.StateRunning && p.node.World.Now()-p.startOf(active.ID.ID) > patience &&
		(c.StartupProbe == nil || p.node.World.Ready(active.ID))
}

// startOf is when an instance was started.
func (p *player) startOf(id string) (at time.Duration) {
	for _, e := range p.node.World.Journal() {
		if e.ID == id && e.Op == fake.OpStartContainer && e.Done {
			at = e.DoneAt
		}
	}
	return at
}

// lostRecords: somebody has removed the records of a container; how it ended may be
// known all the same.
func (p *player) lostRecords(pod *v1.Pod, c *v1.Container) bool {
	return slices.ContainsFunc(p.node.World.Journal(), func(e fake.Entry) bool {
		return e.Op == fake.OpLostRecords && e.UID == pod.UID && e.Container == c.Name
	})
}

// madeLate: the newest instance of a container never ran, and one before it has ended.
// It was asked for by an agent that is gone, and appeared when that end had been told.
func madeLate(truth *runtime.PodStatus, c *v1.Container) bool {
	latest := truth.Latest(c.Name)
	return latest != nil && latest.State == runtime.StateCreated && slices.ContainsFunc(truth.Containers, func(other runtime.ContainerStatus) bool {
		return other.Name == c.Name && other.State == runtime.StateExited
	})
}

// isSidecar reports whether a container is a sidecar. The policy alone does not tell: a regular container may have its own.
func isSidecar(pod *v1.Pod, ref runtime.Ref) bool {
	return ref.Group == runtime.GroupInit && podfacts.IsSidecar(ref.Container(pod))
}

func isPlainInit(pod *v1.Pod, c *v1.Container) bool {
	return !podfacts.IsSidecar(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
}

// initPast: a later container was made in this sandbox, so init container i was done.
func initPast(pod *v1.Pod, i int, truth *runtime.PodStatus) bool {
	for _, c := range allContainers(pod)[i+1:] {
		if truth.Active(c.Name) != nil {
			return true
		}
	}
	return false
}

// tried: the container runs, was tried lately, or has no reason to run.
func (p *player) tried(pod *v1.Pod, c *v1.Container, truth *runtime.PodStatus, always bool) error {
	active := truth.Active(c.Name)
	if latest := truth.Latest(c.Name); !always && latest != nil && latest.State == runtime.StateExited {
		active = latest // what is done is done, in whatever sandbox
	}
	switch {
	case active == nil:
	case active.State == runtime.StateRunning || active.State == runtime.StateUnknown:
		if isPlainInit(pod, c) {
			return nil // it ends by itself, and is left alone
		}
		return differs("the image of running container "+c.Name, c.Image, active.Image)
	case active.State == runtime.StateExited && !always && (!active.Failed() || !comesAgain(pod, c, active.ExitCode)):
		return nil
	}
	last := time.Duration(-1)
	for _, e := range p.node.World.Journal() {
		if e.UID == pod.UID && e.Container == c.Name && (e.Op == fake.OpStartContainer || e.Op == fake.OpExited) {
			last = e.At
		}
	}
	switch now := p.node.World.Now(); {
	case last < 0:
		return fmt.Errorf("container %s was never started", c.Name)
	case now-last > patience:
		return fmt.Errorf("container %s does not run, and nothing has happened for it since %v", c.Name, last)
	}
	return nil
}

// truthful: what is published as running runs, and nothing else does.
func truthful(status *v1.PodStatus, truth *runtime.PodStatus) error {
	ids := make(map[string]bool)
	for _, c := range truth.Running() {
		ids[c.ID.String()] = true
	}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Running != nil && !ids[c.ContainerID] {
				return fmt.Errorf("container %s is published as running in %s, which does not", c.Name, c.ContainerID)
			}
			if c.State.Running != nil {
				delete(ids, c.ContainerID)
			}
		}
	}
	for id := range ids {
		return fmt.Errorf("%s runs, and is not published as running", id)
	}
	return nil
}

// nothingElse: nothing runs that nobody wants.
func (p *player) nothingElse(wanted []*v1.Pod) error {
	known := make(map[types.UID]bool)
	for _, pod := range wanted {
		known[pod.UID] = true
	}
	var errs []error
	for _, status := range p.node.World.Truth() {
		if !known[status.UID] {
			errs = append(errs, fmt.Errorf("nobody wants %s (%s), and the runtime still has it", status.Name, status.UID))
		}
	}
	return errors.Join(errs...)
}

// patienceAtEnd is how long everything has to go away.
const patienceAtEnd = 10 * time.Minute

// end removes all pods, waits, and fails unless nothing of them is left.
func (p *player) end() error {
	if err := p.quiet(); err != nil {
		return err
	}
	p.wanted = nil
	p.node.Apply()
	for _, pod := range p.latest {
		if p.server.Get(pod.UID) != nil {
			if _, err := p.server.Delete(pod.UID); err != nil {
				return err
			}
		}
	}
	p.sleep(patienceAtEnd)
	errs := append([]error{p.nothingElse(nil)}, append(p.orphanedMirrors(), p.uncollected()...)...)
	for _, device := range p.node.disk.devicesLeft() {
		errs = append(errs, fmt.Errorf("device %s is still staged", device))
	}
	for _, pod := range p.latest {
		if p.server.Get(pod.UID) != nil {
			errs = append(errs, fmt.Errorf("the API server still has %s (%s)", pod.Name, pod.UID))
		}
	}
	for _, pod := range p.node.assembly.Pods() {
		errs = append(errs, fmt.Errorf("the agent still knows %s (%s)", pod.Name, pod.UID))
	}
	for uid, info := range p.node.assembly.Workers() {
		errs = append(errs, fmt.Errorf("there still is a worker record of %s: %s", uid, info.State))
	}
	for _, folder := range []string{"pods", "logs"} {
		left, err := os.ReadDir(filepath.Join(p.root, folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, entry := range left {
			errs = append(errs, fmt.Errorf("%s/%s is left", folder, entry.Name()))
		}
	}
	return errors.Join(errs...)
}
