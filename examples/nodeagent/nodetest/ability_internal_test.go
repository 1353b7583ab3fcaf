// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// What abilities bring is judged: each case is a story that is right, and a false word about it that is found.
func TestAbilitiesAreJudged(t *testing.T) {
	untold := func(reason string) func(h *History) {
		return func(h *History) {
			h.Statuses = slices.DeleteFunc(slices.Clone(h.Statuses), func(s Published) bool { return s.Status.Reason == reason })
		}
	}
	volume := func(what VolumeAct, change func(e *VolumeEvent)) func(h *History) {
		return func(h *History) {
			h.Volumes = slices.Clone(h.Volumes)
			for i := range h.Volumes {
				if h.Volumes[i].What == what {
					change(&h.Volumes[i])
				}
			}
		}
	}
	early := func(d time.Duration) func(h *History) {
		return func(h *History) { calls(h, fake.OpCreateContainer, "c", 1, later(-d)) }
	}
	room := "cpu=4000"
	for _, c := range []struct {
		name, node, script string
		tamper             func(h *History)
		want               string
	}{
		{"variable", "", "apply p env=key\nsleep 5s", func(h *History) { h.Made[0].Env = map[string]string{"key": "other"} }, "has variable key"},
		{"variable of a key that is not there", "", "apply p env=extra?\nsleep 5s", func(h *History) { h.Made[0].Env = map[string]string{"extra": ""} }, "has variable extra"},
		{"created without a key", "", "apply p env=extra\nsleep 20s\nkey extra 1\nsleep 20s", early(14 * time.Second), "is created before 20.000s"},
		{"not created with a key", "", "apply p env=extra\nsleep 20s\nkey extra 1\nsleep 1m", func(h *History) {
			calls(h, fake.OpCreateContainer, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
		}, "is not created"},
		{"created without an image", "images=0s", "registry down\napply p\nsleep 20s\nregistry up\nsleep 6m", early(20 * time.Second), "is created before 20.000s"},
		{"created without volumes", "", "volumes fail-set-up\napply p volume=data\nsleep 20s\nvolumes work\nsleep 3m", early(15 * time.Second), "is created before 20.000s"},
		{"host port twice", room, "apply p port=80 cpu=100\nsleep 5s\napply q port=80 cpu=100\nsleep 5s", untold(reasonPorts), "another pod has its host port"},
		{"host port free", room, "apply p port=80 cpu=100\nsleep 5s\napply q port=80@10.0.0.1 cpu=100\nsleep 5s\nremove p\nsleep 1m\napply r port=80 cpu=100\nsleep 5s", func(h *History) {
			at := h.Statuses[len(h.Statuses)-1]
			at.Status.Phase, at.Status.Reason = v1.PodFailed, reasonPorts
			h.Statuses = append(h.Statuses, at)
		}, "no other pod has its ports"},
		{"operating system", room, "apply p os=windows cpu=100\nsleep 5s", untold("PodOSNotSupported"), "can never run here by reason of [PodOSNotSupported]"},
		{"taint", room + " taint=k:NoExecute", "bind p cpu=100\nsleep 5s", func(h *History) {
			untold("TaintToleration")(h)
			h.Told = slices.DeleteFunc(slices.Clone(h.Told), func(t Told) bool { return len(t.Pods) > 0 && over(t.Pods[0].Status.Phase) })
		}, "can never run here by reason of [TaintToleration]"},
		{"not staged", "", "apply p volume=disk\nsleep 5s", volume(DeviceReady, func(e *VolumeEvent) { e.What = VolumeFailed }), "its device is not staged"},
		{"staged twice", "", "apply p volume=disk\nsleep 5s\napply q volume=disk\nsleep 5s", func(h *History) {
			h.Volumes = append(slices.Clone(h.Volumes), VolumeEvent{At: 6 * time.Second, Volume: "disk", What: DeviceReady})
		}, "device disk is staged, and has been"},
		{"unstaged in use", "", "apply p volume=disk\nsleep 5s", func(h *History) {
			h.Volumes = append(slices.Clone(h.Volumes), VolumeEvent{At: 6 * time.Second, Volume: "disk", What: DeviceLeaving})
		}, "device disk is unstaged, and uid-p has it"},
		{"owner", "", "apply p volume=data user=7\nsleep 5s", volume(VolumeReady, func(e *VolumeEvent) { e.User = nil }), "is set up for user"},
		{"rule", "", "behave p/c exit=1s,code=2 then serve\napply p rule=c:0,1:not\nsleep 1m", func(h *History) {
			calls(h, fake.OpExited, "c", 1, func(e *fake.Entry) { e.Detail = "code 1 (Error)" })
		}, "is created again, which ended with 1"},
		{"policy of a container", "", "behave p/c exit=1s then serve\napply p restart=Never own=c:OnFailure main=c,d\nsleep 1m", func(h *History) {
			calls(h, fake.OpExited, "c", 1, func(e *fake.Entry) { e.Detail = "code 1 (Error)" })
		}, "is not created again"},
		{"hook that fails", "", "apply p poststart=c:fail\nsleep 5s", func(h *History) {
			calls(h, fake.OpStopContainer, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
			calls(h, fake.OpExited, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
		}, "is to be stopped, and is not"},
		{"period", "", "apply p ready=c period=3\nsleep 1m", func(h *History) { h.Probes = slices.Delete(slices.Clone(h.Probes), 1, 2) }, "was due at 3.000s"},
		{"threshold", "", "apply p live=c failures=1\nsleep 11s\nsick p/c\nsleep 1m", func(h *History) {
			calls(h, fake.OpStopContainer, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
			calls(h, fake.OpExited, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
		}, "is to be stopped, and is not"},
		{"record", "", "behave p/c exit=1s,code=1\napply p\nsleep 5m", func(h *History) {
			calls(h, fake.OpRemoveContainer, "c", 1, later(-30*time.Second))
		}, "and is the newest"},
		{"patch", "", "bind p\nsleep 5s", func(h *History) {
			h.Requests = slices.Clone(h.Requests)
			h.Requests[0].Changed = false
		}, "changes nothing"},
		{"deletion", "", "bind p grace=1\nsleep 5s\ndelete p\nsleep 1m", func(h *History) {
			h.Told = slices.Clone(h.Told)
			for i := range h.Told {
				h.Told[i].Pods = slices.DeleteFunc(slices.Clone(h.Told[i].Pods), func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
			}
		}, "and was not deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := livedOn(t, c.node, c.script)
			l := limits{}
			if c.node != "" {
				script, err := ParseScript("", []byte("node peaceful "+c.node))
				require.NoError(t, err)
				a := &args{words: script.Lines[0].Words[1:]}
				l = limits{a.allocatable(), a.taints()}
			}
			require.NoError(t, errors.Join(Check(h), checkPeace(h, l)))
			c.tamper(&h)
			require.ErrorContains(t, errors.Join(Check(h), checkPeace(h, l)), c.want)
		})
	}
}
