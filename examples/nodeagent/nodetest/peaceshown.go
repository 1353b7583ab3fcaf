// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// Details of statuses: fields that follow from the pod alone, and reasons of waiting containers.

// observes checks that a status is about the present generation of the pod.
func observes(pod *v1.Pod, status *v1.PodStatus) error {
	if status.ObservedGeneration != pod.Generation {
		return fmt.Errorf("its generation is %d, and %d is published as observed", pod.Generation, status.ObservedGeneration)
	}
	return nil
}

// mounting reports whether the volumes of a pod cannot be set up, or could not a short time ago. A status is made
// after the next attempt.
func (p *peace) mounting(pod *v1.Pod) bool {
	return slices.ContainsFunc(p.volumesLacking(pod), func(l lack) bool { return l.from <= p.h.Taken && l.end() >= p.h.Taken })
}

// fieldsFit checks that the fields of a status about the whole pod follow from its spec and its
// sandbox.
func fieldsFit(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	if current := truth.Current(); current != nil && current.NetworkKnown && !pod.Spec.HostNetwork && !over(status.Phase) {
		if len(current.IPs) == 0 || current.IPs[0] == "" {
			return errors.New("its sandbox has no address, and is kept")
		}
		if err := differs("its address", current.IPs[0], status.PodIP); err != nil {
			return err
		}
	}
	return differs("its QOS class", [...]v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}[classOf(pod)], status.QOSClass)
}

// shownIs checks that a published status has the start time of the pod, the condition
// AllContainersRestarting if a rule of the pod can restart all containers, and the containers with
// their images and waiting reasons.
func (p *peace) shownIs(pod *v1.Pod, status *v1.PodStatus, now time.Time) error {
	s, life := p.spanAt(pod.UID, p.h.Taken)
	t := tenant{pod.UID, life}
	began := now.Add(p.beginOf(pod.UID, life) - p.h.Taken)
	found := p.agentBetween(s.from, p.h.Taken) // the next agent may not know its begin
	if status.StartTime == nil {
		return errors.New("it is published without a start time")
	}
	if off := status.StartTime.Sub(began); life == 0 && !found && (off < -time.Second && !p.awaitsStranger(pod.UID, life) || off > soon) {
		return fmt.Errorf("it began at %v, and is published to have at %v", began, status.StartTime)
	}
	_, published := conditionsOf(status)[v1.AllContainersRestarting]
	if all := conditionsOf(status)[v1.AllContainersRestarting]; all.Status == v1.ConditionTrue && all.Reason == "" {
		return errors.New("condition AllContainersRestarting is True without a reason")
	}
	if can := slices.ContainsFunc(allContainers(pod), canRestartAll); can != published {
		return fmt.Errorf("that a rule can restart all its containers is %t, and that it has condition AllContainersRestarting is %t", can, published)
	}
	for _, c := range allContainers(pod) {
		shown, chain := containerStatus(status, c.Name), p.chains[chainKey{pod.UID, life, c.Name}]
		if shown == nil || p.goesOn[t] || p.unmounted(pod, p.h.Taken) {
			continue
		}
		var reasons []string
		switch {
		case len(chain) == 0 && len(pod.Spec.InitContainers) > 0:
			reasons = []string{"PodInitializing"}
		case len(chain) == 0:
			reasons = []string{"ContainerCreating"}
		case chain[len(chain)-1].started == forever:
			reasons = []string{"RunContainerError", "CrashLoopBackOff"}
			if p.agentBetween(chain[len(chain)-1].created, p.h.Taken) {
				reasons = append(reasons, "") // until the next agent has tried
			}
		case chain[len(chain)-1].cannotStart:
			reasons = []string{"RunContainerError", "CrashLoopBackOff"}
		default:
			reasons = []string{"CrashLoopBackOff"}
			if hookFailed(c) {
				reasons = append(reasons, "PostStartHookError")
			}
		}
		if len(chain) > 0 && shown.State.Waiting == nil && shown.Image != chain[len(chain)-1].image {
			return fmt.Errorf("container %s has image %s, and is published with %s", c.Name, chain[len(chain)-1].image, shown.Image)
		}
		if wants := slices.Concat(p.keysLacking(c), p.imagesLacking(c)); len(wants) > 0 {
			reasons = append(reasons, "CreateContainerConfigError", "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable")
		}
		if w := shown.State.Waiting; w != nil && !slices.Contains(reasons, w.Reason) {
			return fmt.Errorf("container %s is published as waiting for reason %q, and not for one of %q", c.Name, w.Reason, reasons)
		}
	}
	return nil
}

// awaitsStranger reports whether a static pod waits for a pod of its name that an earlier agent has
// started. The pod has its first status while it waits.
func (p *peace) awaitsStranger(uid types.UID, life int) bool {
	s := p.wanted[uid][life]
	return s.static && slices.ContainsFunc(p.runs, func(r *run) bool {
		return r.uid != uid && r.pod == p.manifest(uid, s.from).Name && r.created < s.from && r.exited > s.from && p.agentBetween(r.created, min(r.exited, p.h.Taken))
	})
}

func conditionsOf(status *v1.PodStatus) map[v1.PodConditionType]v1.PodCondition {
	is := make(map[v1.PodConditionType]v1.PodCondition)
	for _, c := range status.Conditions {
		is[c.Type] = c
	}
	return is
}

// canRestartAll reports whether a rule of a container can restart all containers of its pod.
func canRestartAll(c *v1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

// endsShown checks that a status shows no instance as running that has ended before. A container
// that is restarted at once, or after hooks, may count as running meanwhile. A container that ends
// during the preStop hook of its failed probe may count as running until the hook returns, also if
// the restart waits for a back-off.
func (p *peace) endsShown() {
	shown := make(map[string]time.Duration) // how long an instance that has ended may count as running, by ID
	ended := make(map[string]*run)
	for key, chain := range p.chains {
		for i, r := range chain {
			if r.exited == forever {
				continue
			}
			ended[r.id], shown[r.id] = r, r.exited
			if key.life < 0 {
				continue
			}
			pod, quick := p.lastManifest(key.uid, key.life), r.exited+time.Second
			if ref, ok := runtime.Find(pod, key.name); ok && hookTime(ref.Container(pod)) > 0 && p.unwellAt(ref.Container(pod), r) <= r.exited {
				shown[r.id] = quick + hookTime(ref.Container(pod))
			}
			if i+1 == len(chain) {
				continue
			}
			for _, c := range allContainers(pod) {
				quick += afterStart(c) + hookTime(c)
			}
			if chain[i+1].started <= quick {
				shown[r.id] = max(shown[r.id], chain[i+1].started)
			}
		}
	}
	for _, s := range p.h.Statuses {
		for c := range podfacts.AllStatuses(&s.Status) {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			if r := ended[id]; r != nil && c.State.Running != nil && shown[id] < s.At {
				p.violate(s.At, "%s (%s/%s) is published as running, and has ended at %.3fs", id, r.uid, r.name, r.exited.Seconds())
			}
		}
	}
}
