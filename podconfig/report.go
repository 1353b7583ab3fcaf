// SPDX-License-Identifier: Apache-2.0

package podconfig

import "go.uber.org/zap"

// report calls StoreOptions.Rejected, or logs a warning.
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
