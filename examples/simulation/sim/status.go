// SPDX-License-Identifier: Apache-2.0

package sim

import "strings"

// Code is the kind of an answer of a plug-in, as in the framework of kube-scheduler.
type Code uint8

// The codes. Success is the code of a nil Status.
const (
	Success       Code = iota
	Error              // the cycle ends, and is repeated after a back-off
	Unschedulable      // not on this node; preemption may help
	Unresolvable       // not on this node; preemption cannot help
	Waiting            // only of Permit
	Skip               // of PreFilter and PreScore: the plug-in is not asked in this cycle
)

// Status is an answer of a plug-in. nil is a success. A Status is immutable and may be shared.
type Status struct {
	Code    Code
	Reasons []string
}

// NewStatus returns a Status with a reason.
func NewStatus(code Code, reasons ...string) *Status { return &Status{code, reasons} }

// Code returns the code of a Status, which may be nil.
func (s *Status) code() Code {
	if s == nil {
		return Success
	}
	return s.Code
}

// String returns the reasons.
func (s *Status) String() string {
	if s == nil {
		return "fits"
	}
	return strings.Join(s.Reasons, ", ")
}
