// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceRecordPath returns the path of the record of a staged volume.
func DeviceRecordPath(root string, volume v1.UniqueVolumeName) string {
	return filepath.Join(root, deviceRecordName(volume))
}

// Limits are the limits of a Manager.
type Limits struct {
	Resync, Wait, Operation time.Duration
	Parallel                int
}

// DefaultLimits are those of every program.
func DefaultLimits() Limits {
	l := defaultLimits()
	return Limits{l.resync, l.wait, l.operation, l.parallel}
}

// SetLimits replaces the limits that are not 0.
func (o *Options) SetLimits(l Limits) {
	own := defaultLimits()
	if o.limits != nil {
		own = *o.limits
	}
	o.limits = &limits{
		resync: cmp.Or(l.Resync, own.resync), wait: cmp.Or(l.Wait, own.wait),
		operation: cmp.Or(l.Operation, own.operation), parallel: cmp.Or(l.Parallel, own.parallel),
	}
}

// CleanupOrphans calls CleanupOrphan for each pod on disk that keep does not keep, until ctx ends.
func (m *Manager) CleanupOrphans(ctx context.Context, keep func(types.UID) bool) error {
	uids, err := m.PodsOnDisk()
	errs := []error{err}
	for _, uid := range uids {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if !keep(uid) {
			errs = append(errs, m.CleanupOrphan(uid))
		}
	}
	return errors.Join(errs...)
}
