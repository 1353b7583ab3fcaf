// SPDX-License-Identifier: Apache-2.0

package runtime

import v1 "k8s.io/api/core/v1"

// How far what a backend reports may be from what it was told: kernels count cpu
// in shares and microseconds, and memory in pages.
const (
	cpuSlack        = 1        // thousandths
	leastCPULimit   = 10       // thousandths; no quota is smaller
	leastCPURequest = 2        // thousandths; two shares
	memorySlack     = 64 << 10 // bytes; the largest page
)

// atFirstSight decides what the running instance st of c is taken to have when
// this manager did not resize it itself.
//
//   - A resource whose change restarts the container is as it was when the
//     container was made. Where that is not on record (another agent made it) it
//     is taken to be as wanted: ignorance restarts nothing.
//   - Any other is as the backend reports it, less what is rounding; else as on
//     record; else nothing, so that it is set once more.
func atFirstSight(pod *v1.Pod, c *v1.Container, st *ContainerStatus) demand {
	wanted := wantedBy(pod, c)
	base, recorded := givenTo(st)
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

// asReported is d with what a backend reports otherwise. What it reports as 0 it
// does not know.
func (d demand) asReported(r demand) demand {
	correct := func(told *int64, reported, slack, least int64) {
		far := reported-*told > slack || *told-reported > slack
		if reported > 0 && far && max(reported, *told) > least {
			*told = reported
		}
	}
	correct(&d.cpuRequest, r.cpuRequest, cpuSlack, leastCPURequest)
	correct(&d.cpuLimit, r.cpuLimit, cpuSlack, leastCPULimit)
	correct(&d.memoryRequest, r.memoryRequest, memorySlack, 0)
	correct(&d.memoryLimit, r.memoryLimit, memorySlack, 0)
	return d
}
