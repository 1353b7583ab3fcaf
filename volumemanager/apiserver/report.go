// SPDX-License-Identifier: Apache-2.0

package apiserver

import "github.com/keelson-dev/keelson/volumemanager/plugins/objects"

// tolerated is how often in a row one object may be refused before it is a problem: that is usual while the Node
// authorizer has not heard of a new pod.
const tolerated = 3

// report decides what is told: each kind of problem once until it is over, and when all is well again.
type report struct {
	told map[kind]bool
	// untold is what Run has still to tell, nil for "all is well".
	untold []*Error
}

// kind is what is told once. It has no ref if the problem is the server's.
type kind struct {
	ref    objects.Ref
	reason Reason
}

// failed notes that an attempt on an object failed, as it did the last times.
func (r *report) failed(e *Error, times int) {
	k := kind{ref: e.Ref, reason: e.Reason}
	if e.outage() {
		k.ref = objects.Ref{}
	} else if times <= tolerated {
		return
	}
	if !r.told[k] {
		r.told[k] = true
		r.untold = append(r.untold, e)
	}
}

// answers notes that the server did, and so has no problem.
func (r *report) answers() { r.over(objects.Ref{}) }

// over notes that there is no problem with an object any more, or with the server if ref is zero.
func (r *report) over(ref objects.Ref) {
	before := len(r.told)
	for k := range r.told {
		if k.ref == ref {
			delete(r.told, k)
		}
	}
	if before > 0 && len(r.told) == 0 {
		r.untold = append(r.untold, nil)
	}
}

// knows tells whether a problem with an object was told that is not over.
func (r *report) knows(ref objects.Ref) bool {
	for k := range r.told {
		if k.ref == ref {
			return true
		}
	}
	return false
}

// take returns what is to be told now.
func (r *report) take() []*Error {
	all := r.untold
	r.untold = nil
	return all
}
