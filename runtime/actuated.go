// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// The possible difference between the reported and the applied values: kernels count cpu in shares
// and microseconds, and memory in pages.
const (
	cpuSlack    = 1        // thousandths
	memorySlack = 64 << 10 // bytes; the largest page
)

// atFirstSight returns the assumed resources of the running instance st of c, if this manager has
// not resized the instance.
//
//   - A resource whose change restarts the container has the value from the creation of the
//     container. Without a record, because another agent made the container, the value is assumed
//     to be as wanted, so that missing knowledge restarts no container.
//   - Another resource has the reported value, up to rounding, else the recorded value. Without
//     both it has no value, and is set again.
func atFirstSight(pod *v1.Pod, c *v1.Container, st *ContainerStatus) demand {
	wanted := wantedBy(pod, c)
	base, recorded := givenTo(st, wanted)
	if !recorded && st.Resources != nil {
		base = wanted
	}
	out := base
	if st.Resources != nil {
		out = base.asReported(demandIn(st.Resources))
	}
	for _, name := range resizable {
		switch {
		case !restartsForResize(c, name):
		case recorded:
			out = out.with(name, base)
		default:
			out = out.with(name, wanted)
		}
	}
	return out
}

// asReported returns d with the values that the backend reports differently. A reported 0 means
// unknown.
func (d demand) asReported(r demand) demand {
	correct := func(told *int64, reported, slack, least int64) {
		far := reported-*told > slack || *told-reported > slack
		if reported > 0 && far && max(reported, *told) > least {
			*told = reported
		}
	}
	correct(&d.CPURequest, r.CPURequest, cpuSlack, podresources.LeastCPURequest)
	correct(&d.CPULimit, r.CPULimit, cpuSlack, podresources.LeastCPULimit)
	correct(&d.MemoryRequest, r.MemoryRequest, memorySlack, 0)
	correct(&d.MemoryLimit, r.MemoryLimit, memorySlack, 0)
	return d
}
