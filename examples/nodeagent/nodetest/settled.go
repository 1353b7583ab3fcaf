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
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/statusmanager"
)

// calm clears all faults, waits, and judges every wanted pod: no pod is lost, the latest spec is in
// effect, and the published statuses are true.
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

// Published statuses lag behind the containers by the latencies of the runtime and of the API
// server, a second each. A container in a crash loop may crash at the time of judgement. Its
// back-off is then five minutes, and the next looks see the container at rest. Real faults persist
// until then.
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
	return errors.Join(append(append(errs, p.nothingElse(wanted), p.atRest(d)), p.orphanedMirrors()...)...)
}

// quiet clears all faults.
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
	if err := p.apiServer("up", statusmanager.RequestNone); err != nil {
		return err
	}
	p.node.ResumeAgent()
	p.bury()
	if p.node.life != nil {
		p.node.life.lease.set(nil)
	}
	p.sprung = nil
	return p.node.startAgent()
}

// everyWanted returns the wanted pods of all sources.
func (p *player) everyWanted() (pods []*v1.Pod) {
	pods = append(pods, p.wanted...)
	for _, pod := range p.latest {
		if stored := p.server.Get(pod.UID); stored != nil {
			pods = append(pods, stored)
		}
	}
	return pods
}

// converged judges a wanted pod by its containers and by its published status.
func (p *player) converged(pod *v1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return errors.New("it was deleted, and is still on the API server")
	}
	status := p.published(pod.UID)
	if status == nil {
		return errors.New("it is lost: the agent does not know it")
	}
	truth := p.truth(pod.UID)
	if err := errors.Join(p.apiKnows(pod, status), p.mirrored(pod, status), p.workerOf(pod.UID, status)); err != nil {
		return err
	}
	if slices.Contains(impossibilities, status.Reason) {
		return rightlyOver(pod, status, truth) // it was never admitted, and has no other conditions
	}
	if over(status.Phase) {
		return errors.Join(rightlyOver(pod, status, truth), conditionsFit(pod, status, truth))
	}
	if p.keepsLost(pod, truth) {
		return errors.Join(p.works(pod, status, truth), swept(truth))
	}
	return errors.Join(p.works(pod, status, truth), swept(truth), truthful(status, truth), consistent(pod, status), p.countsRestarts(pod, status),
		phaseFits(pod, status, truth), conditionsFit(pod, status, truth), containersFit(status, truth, p.unheeded(pod.UID)), p.probesFit(pod, status, truth),
		observes(pod, status), fieldsFit(pod, status, truth), inTime(pod, status, time.Now()), resized(pod, status, truth))
}

// keepsLost reports whether a container of the pod waits for a sidecar, and an instance of the container runs
// that the runtime has lost track of. The agent replaces the instance later, and publishes an unknown end.
func (p *player) keepsLost(pod *v1.Pod, truth *runtime.PodStatus) bool {
	return slices.ContainsFunc(p.node.World.Journal(), func(e fake.Entry) bool {
		ref, ok := runtime.Find(pod, e.Container)
		if !ok || e.UID != pod.UID || e.Op != fake.OpLostTrack || !waitsForSidecar(pod, ref.Container(pod), truth) {
			return false
		}
		active := truth.Active(e.Container)
		return active != nil && active.ID.ID == e.ID
	})
}

// unheeded returns the containers of a pod with an instance whose start took effect for an agent that
// was gone, or whose records a fault removed. Their statuses count more restarts than the records.
func (p *player) unheeded(uid types.UID) map[string]bool {
	c, names := newChecker(p.node.History()), make(map[string]bool)
	for _, i := range c.instances {
		if i.uid == uid && i.called >= 0 && c.unheeded(i) {
			names[i.name] = true
		}
	}
	for _, e := range c.h.Calls {
		if e.Op == fake.OpLostRecords && e.UID == uid {
			names[e.Container] = true
		}
	}
	return names
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

// apiKnows checks that the API server has the agent's published status.
func (p *player) apiKnows(pod *v1.Pod, status *v1.PodStatus) error {
	if stored := p.server.Get(pod.UID); stored != nil {
		return heard(pod, stored, status)
	}
	return nil
}

// heard checks that the API server's object of a pod has the status.
func heard(pod, stored *v1.Pod, status *v1.PodStatus) error {
	// After a reboot init runs again and the pod is Pending. On the API server no phase goes back
	// from Running (package statusmanager).
	waits := stored.Status.Phase == v1.PodRunning && status.Phase == v1.PodPending
	// Another client and the agent may have set a final phase at the same time. The API server
	// keeps the first.
	if stored.Status.Reason == declaredFailed && over(status.Phase) {
		return nil
	}
	if stored.Status.Phase != status.Phase && !waits {
		return fmt.Errorf("the API server has phase %q, the agent %q", stored.Status.Phase, status.Phase)
	}
	if over(status.Phase) {
		return nil // unknown facts about containers are replaced by texts in the patch
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
	if waits {
		return nil
	}
	return heardInFull(&stored.Status, status)
}

// initDone reports whether the init container has ended for good according to the API server. In a
// new sandbox the container runs again, but an API server does not accept this change, and package
// statusmanager does not send the change.
func initDone(pod *v1.Pod, stored *v1.ContainerStatus) bool {
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways || stored.State.Terminated == nil {
		return false
	}
	done := stored.State.Terminated.ExitCode == 0 || pod.Spec.RestartPolicy == v1.RestartPolicyNever
	return done && slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == stored.Name && !podfacts.IsSidecar(&c)
	})
}

// rightlyOver checks that a pod that has ended had a reason to end, and runs no container.
func rightlyOver(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	if running := truth.Running(); len(running) > 0 {
		return fmt.Errorf("it is %s, and container %s is %s", status.Phase, running[0].Name, running[0].State)
	}
	if status.Reason != "" {
		return nil // rejected, declared failed, or stopped with the agent
	}
	initFails := slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return policyOf(pod, &c) == v1.RestartPolicyNever })
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways && !initFails && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return policyOf(pod, &c) == v1.RestartPolicyAlways }) {
		return fmt.Errorf("it is %s, and its restart policy is Always", status.Phase)
	}
	return phaseFits(pod, status, truth)
}

// A container that should run and does not is in back-off for at most five minutes. The agent has
// half a minute to act.
const patience = 5*time.Minute + 30*time.Second

// works checks that each container that should run has an instance with the wanted spec, or was
// tried recently.
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
			if sidecar && p.hookHangs(pod) {
				return nil // no sidecar is started or stopped meanwhile
			}
			return err
		}
		if !sidecar || !p.steady(c, truth.Active(c.Name)) {
			return nil // the following containers wait for this one
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

// hookHangs reports whether a call of a postStart hook of the pod has not returned.
func (p *player) hookHangs(pod *v1.Pod) bool {
	return slices.ContainsFunc(p.node.World.Journal(), func(e fake.Entry) bool {
		ref, ok := runtime.Find(pod, e.Container)
		if !ok || e.UID != pod.UID || e.Op != fake.OpExec || !e.UnderWay {
			return false
		}
		c := ref.Container(pod)
		return c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Exec != nil && e.Detail == fmt.Sprintf("%q", c.Lifecycle.PostStart.Exec.Command)
	})
}

// steady reports whether the sidecar runs and has passed its startup probe long enough ago that
// waiting containers with a back-off have been tried.
func (p *player) steady(c *v1.Container, active *runtime.ContainerStatus) bool {
	return active != nil && active.State == runtime.StateRunning && p.node.World.Now()-p.startOf(active.ID.ID) > patience &&
		(c.StartupProbe == nil || p.node.World.Ready(active.ID))
}

// startOf returns the start time of an instance.
func (p *player) startOf(id string) (at time.Duration) {
	for _, e := range p.node.World.Journal() {
		if e.ID == id && e.Op == fake.OpStartContainer && e.Done {
			at = e.DoneAt
		}
	}
	return at
}

// lostRecords reports whether a fault has removed the records of a container. Its exit may be known
// anyway.
func (p *player) lostRecords(pod *v1.Pod, c *v1.Container) bool {
	return slices.ContainsFunc(p.node.World.Journal(), func(e fake.Entry) bool {
		return e.Op == fake.OpLostRecords && e.UID == pod.UID && e.Container == c.Name
	})
}

// madeLate reports whether the newest instance of a container never ran, and an earlier instance
// has ended. Then an earlier agent requested the newest instance, and the instance appeared after
// the exit was published.
func madeLate(truth *runtime.PodStatus, c *v1.Container) bool {
	latest := truth.Latest(c.Name)
	return latest != nil && latest.State == runtime.StateCreated && slices.ContainsFunc(truth.Containers, func(other runtime.ContainerStatus) bool {
		return other.Name == c.Name && other.State == runtime.StateExited
	})
}

// isSidecar reports whether a container is a sidecar. Its policy does not suffice, because a
// regular container may have its own policy.
func isSidecar(pod *v1.Pod, ref runtime.Ref) bool {
	return ref.Group == runtime.GroupInit && podfacts.IsSidecar(ref.Container(pod))
}

func isPlainInit(pod *v1.Pod, c *v1.Container) bool {
	return !podfacts.IsSidecar(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
}

// initPast reports whether a later container was made in this sandbox, so init container i has
// completed.
func initPast(pod *v1.Pod, i int, truth *runtime.PodStatus) bool {
	for _, c := range allContainers(pod)[i+1:] {
		if truth.Active(c.Name) != nil {
			return true
		}
	}
	return false
}

// lostSightOf reports whether a status shows an unknown end of a container: the last status that an
// API server has of an earlier agent shows an instance without a record.
func lostSightOf(status *v1.PodStatus, name string) bool {
	if status == nil {
		return false
	}
	shown := containerStatus(status, name)
	return shown != nil && shown.State.Terminated != nil && shown.State.Terminated.Reason == podstatus.ReasonStatusUnknown
}

// tried checks that the container runs, was tried recently, or has no reason to run.
func (p *player) tried(pod *v1.Pod, c *v1.Container, truth *runtime.PodStatus, always bool) error {
	active := truth.Active(c.Name)
	if latest := truth.Latest(c.Name); !always && latest != nil && latest.State == runtime.StateExited {
		active = latest // an ended container stays ended in every sandbox
	}
	switch {
	case active == nil && !always && policyOf(pod, c) == v1.RestartPolicyNever && lostSightOf(p.published(pod.UID), c.Name):
		return nil // it may have ended for good
	case active == nil:
	case active.State == runtime.StateRunning || active.State == runtime.StateUnknown:
		if isPlainInit(pod, c) {
			return nil // ends by itself and is left alone
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

// truthful checks that the instances published as running are exactly the running instances.
func truthful(status *v1.PodStatus, truth *runtime.PodStatus) error {
	ids := make(map[string]bool)
	for _, c := range truth.Running() {
		ids[c.ID.String()] = true
	}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
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

// swept checks that a sandbox that is not ready, has no container and is older than another is
// removed.
func swept(truth *runtime.PodStatus) error {
	for i, s := range truth.Sandboxes {
		if i > 0 && !s.Ready && !slices.ContainsFunc(truth.Containers, func(c runtime.ContainerStatus) bool { return c.Sandbox == s.ID }) {
			return fmt.Errorf("sandbox %s is empty, not ready and not the newest, and is kept", s.ID)
		}
	}
	return nil
}

// nothingElse checks that no unwanted container runs.
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

// patienceAtEnd is the time for the removal of all pods.
const patienceAtEnd = 10 * time.Minute

// end removes all pods, waits, and fails if anything of them is left.
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
