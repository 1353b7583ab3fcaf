// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
)

// failedValidation is the kubelet's event reason for a pod that is not accepted.
const failedValidation = "FailedValidation"

// reject tells the user and the caller about pods that were not accepted.
func (s *Store) reject(source string, rejected []rejection) {
	if s.options.Recorder != nil {
		for _, r := range rejected {
			if r.pod != nil {
				s.options.Recorder.Eventf(r.pod.DeepCopy(), v1.EventTypeWarning, failedValidation,
					"Ignoring the pod from source %q: %v", source, r.err)
			}
		}
	}
	s.report(source, rejected)
}

// report tells the caller alone.
func (s *Store) report(source string, rejected []rejection) {
	for _, r := range rejected {
		if s.options.Rejected != nil {
			s.options.Rejected(Rejection{Source: source, Pod: r.pod.DeepCopy(), Err: r.err})
			continue
		}
		fields := []zap.Field{zap.String("source", source), zap.Error(r.err)}
		if r.pod != nil {
			fields = append(fields, zap.String("pod", FullName(r.pod)), zap.String("podUID", string(r.pod.UID)))
		}
		s.options.Logger.Warn("Pod rejected or in conflict", fields...)
	}
}
