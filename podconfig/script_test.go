// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// A script is a sequence of changes read from bytes, for a random generator or a fuzzer. UIDs and
// names are few, so that all kinds of collisions are frequent.

// told is a pod of a script; the model stores it unchanged.
type told struct {
	uid, name string
	// label and marked are intent. deleting is 0 (no) or the grace period.
	label, deleting int
	status          int
	// trifle is metadata that is not reported to consumers. spelling is an equal value in another
	// form.
	trifle, spelling int
}

// step is a change.
type step struct {
	source string
	kind   podconfig.ChangeKind
	pods   []told
	uids   []types.UID
}

var scriptSources = []string{podconfig.SourceAPI, podconfig.SourceFile, "bus"}

// readScript never fails: missing bytes are 0.
func readScript(data []byte) []step {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	var steps []step
	for len(data) > 0 {
		s := step{source: scriptSources[next(len(scriptSources))]}
		switch next(8) {
		case 0, 1:
			s.kind = podconfig.ChangeSnapshot
		case 2:
			s.kind = podconfig.ChangeRemove
		default:
			s.kind = podconfig.ChangeUpsert
		}
		for range next(4) {
			if s.kind == podconfig.ChangeRemove {
				s.uids = append(s.uids, types.UID(fmt.Sprint("u", next(6))))
				continue
			}
			s.pods = append(s.pods, readPod(next))
		}
		steps = append(steps, s)
	}
	return steps
}

func readPod(next func(int) int) told {
	p := told{uid: fmt.Sprint("u", next(6))}
	// Most of the time a UID keeps its name.
	p.name = "n" + p.uid[1:]
	if odd := next(24); odd < 5 {
		p.name = fmt.Sprint("n", odd)
	}
	content := next(256)
	p.label, content = content%2, content/2
	p.status, content = content%2, content/2
	p.trifle, content = content%2, content/2
	p.spelling, content = content%2, content/2
	p.deleting = max(0, content%8-5)
	return p
}

func (s step) change() podconfig.Change {
	switch s.kind {
	case podconfig.ChangeRemove:
		return podconfig.Remove(s.uids...)
	case podconfig.ChangeSnapshot:
		return podconfig.Snapshot(buildAll(s)...)
	}
	return podconfig.Upsert(buildAll(s)...)
}

func buildAll(s step) []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(s.pods))
	for _, p := range s.pods {
		pods = append(pods, p.build(s.source))
	}
	return pods
}

var scriptTime = metav1.Unix(1_700_000_000, 0)

// build returns the pod sent by a source. The API source numbers contents with a resourceVersion,
// or sends none. Other sources send a resourceVersion without a meaning.
func (p told) build(source string) *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: p.name, Namespace: "ns", UID: types.UID(p.uid), Generation: int64(p.trifle), ResourceVersion: "7",
	}}
	if source == podconfig.SourceAPI {
		out.ResourceVersion = ""
		if p.label == 1 {
			out.ResourceVersion = fmt.Sprintf("%d%d%d%s", p.status, p.trifle, p.deleting, p.name)
		}
	}
	cpu := resource.MustParse("1")
	if p.spelling == 1 {
		cpu = resource.MustParse("1000m")
		out.Labels = map[string]string{}
	}
	if p.label == 1 {
		out.Labels = map[string]string{"intent": "1"}
	}
	if p.deleting > 0 {
		grace, at := int64(p.deleting), scriptTime
		if p.spelling == 1 {
			at = metav1.Time{Time: at.In(elsewhere)}
		}
		out.DeletionTimestamp, out.DeletionGracePeriodSeconds = &at, &grace
	}
	out.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: cpu}
	out.Status.Message = fmt.Sprint(p.status)
	return out
}

// read is the inverse of build, except for spelling.
func read(pod *v1.Pod) told {
	p := told{uid: string(pod.UID), name: pod.Name, trifle: int(pod.Generation)}
	if pod.Labels["intent"] == "1" {
		p.label = 1
	}
	if pod.DeletionTimestamp != nil {
		p.deleting = int(*pod.DeletionGracePeriodSeconds)
	}
	if pod.Status.Message == "1" {
		p.status = 1
	}
	return p
}

// scribble modifies a pod, as its owner may.
func scribble(pod *v1.Pod) {
	pod.Labels, pod.Name, pod.UID = map[string]string{"intent": "scribbled"}, "scribbled", "scribbled"
	pod.Status.Message = "scribbled"
	for key := range pod.Annotations {
		pod.Annotations[key] = "scribbled"
	}
	for key := range pod.Spec.Overhead {
		pod.Spec.Overhead[key] = resource.MustParse("99")
	}
	if pod.DeletionTimestamp != nil {
		pod.DeletionTimestamp.Time = pod.DeletionTimestamp.AddDate(1, 0, 0)
		*pod.DeletionGracePeriodSeconds = 99
	}
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.source, s.kind)
	for _, p := range s.pods {
		fmt.Fprintf(&b, " %+v", p)
	}
	for _, uid := range s.uids {
		fmt.Fprintf(&b, " %s", uid)
	}
	return b.String()
}
