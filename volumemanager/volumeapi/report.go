// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// tolerated is the number of refusals of an object in a row that are not reported. Refusals are
// usual while the Node authorizer does not know a new pod.
const tolerated = 3

// report decides which failures are reported: each kind of failure once until it ends, and the end
// of all failures.
type report struct {
	told map[kind]bool
	// untold are the failures that Run must still report; nil reports that all failures have ended.
	untold []*Error
}

// kind identifies a failure that is reported once. A failure of the server has no ref.
type kind struct {
	ref    objects.Ref
	reason metav1.StatusReason
}

// failed records the failure of an attempt on an object, after times failures in a row.
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

// answers records an answer of the server: its failures have ended.
func (r *report) answers() { r.over(objects.Ref{}) }

// over records the end of the failures of an object, or of the server if ref is zero.
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

// knows reports whether a reported failure of the object has not ended.
func (r *report) knows(ref objects.Ref) bool {
	for k := range r.told {
		if k.ref == ref {
			return true
		}
	}
	return false
}

// take removes and returns the failures to report now.
func (r *report) take() []*Error {
	all := r.untold
	r.untold = nil
	return all
}
