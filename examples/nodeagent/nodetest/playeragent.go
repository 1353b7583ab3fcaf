// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Actions of a player on the agent and on the API server.

func (p *player) agent(what string) error {
	switch what {
	case "start":
		return p.node.startAgent()
	case "stop":
		p.node.StopAgent()
	case "restart":
		p.node.StopAgent()
		return p.node.startAgent()
	case "suspend":
		p.node.SuspendAgent()
	case "resume":
		p.node.ResumeAgent()
	}
	return nil
}

func (p *player) crash(seed uint64) { p.node.CrashAgent(seed) }

func (p *player) reboot() error {
	p.node.crash(nil)
	p.node.World.Reboot()
	return p.node.startAgent()
}

// bound returns the UID of a pod on the API server.
func (p *player) bound(name string) (types.UID, error) {
	pod := p.latest[name]
	if pod == nil || p.server.Get(pod.UID) == nil {
		return "", errNoSuchPod
	}
	return pod.UID, nil
}

var errOver = errors.New("it is over already")

var errNameTaken = errors.New("there is a pod of this name")

func (p *player) bind(pod *v1.Pod) error {
	if _, err := p.bound(pod.Name); err == nil {
		return errNameTaken
	}
	pod = pod.DeepCopy()
	pod.Annotations, pod.Generation = nil, 1 // the pod is not static
	p.latest[pod.Name] = p.node.Bind(pod)
	return nil
}

func (p *player) edit(name string, version int) error {
	uid, err := p.bound(name)
	if err != nil {
		return err
	}
	return p.change(uid, func(pod *v1.Pod) {
		for _, c := range allContainers(pod) {
			c.Image = imageOf(c.Name, version)
		}
	})
}

var errNoNeed = errors.New("its containers do not ask for any")

// resize changes the amount of a resource of the regular containers of a pod.
func (p *player) resize(name string, n need, amount int) error {
	uid, err := p.bound(name)
	if err != nil {
		return err
	}
	has := p.server.Get(uid).Spec.Containers[0].Resources
	if amountOf(has.Requests, n.name) == 0 {
		return errNoNeed
	}
	burst := int(amountOf(has.Limits, n.name) / amountOf(has.Requests, n.name))
	return p.change(uid, func(pod *v1.Pod) {
		for i := range pod.Spec.Containers {
			n.of(&pod.Spec.Containers[i], amount, burst)
		}
	})
}

// setCondition writes a condition to the status of a pod, as another client.
func (p *player) setCondition(name string, c v1.PodCondition) error {
	uid, err := p.bound(name)
	if err != nil {
		return err
	}
	p.conditions[uid] = c
	return p.change(uid, func(pod *v1.Pod) {
		pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(o v1.PodCondition) bool { return o.Type == c.Type }), c)
	})
}

func (p *player) feels(name, container string, sick bool) error {
	if p.latest[name] == nil {
		return errNoSuchPod
	}
	p.node.history.setSick(p.uid(name), container, sick)
	return nil
}

// delete makes a single change, because the agent may handle each of two changes.
func (p *player) delete(name string, grace int64) error {
	uid, err := p.bound(name)
	if err == nil {
		err = p.change(uid, func(pod *v1.Pod) {
			if pod.DeletionTimestamp == nil {
				pod.DeletionTimestamp = new(metav1.NewTime(time.Now().Truncate(time.Second)))
				pod.DeletionGracePeriodSeconds = new(grace)
			}
			pod.DeletionGracePeriodSeconds = new(min(grace, *pod.DeletionGracePeriodSeconds))
		})
	}
	return err
}

func (p *player) evict(name string) error {
	uid, err := p.bound(name)
	if err == nil {
		p.node.Evict(uid)
	}
	return err
}

// declaredFailed is the reason of pods that another client has declared failed.
const declaredFailed = "NodeLost"

func (p *player) declareFailed(name string) error {
	uid, err := p.bound(name)
	if err == nil && over(p.server.Get(uid).Status.Phase) {
		err = errOver
	}
	if err == nil {
		err = p.change(uid, func(pod *v1.Pod) { pod.Status.Phase, pod.Status.Reason = v1.PodFailed, declaredFailed })
	}
	return err
}
