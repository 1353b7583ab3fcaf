// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUpdateThatCannotBeMeantIsRefused covers updates that the kubelet (1.36) logs and drops (a runtime pod without a
// kill), resolves silently (a Pod beside a runtime pod) or crashes on (neither).
func TestUpdateThatCannotBeMeantIsRefused(t *testing.T) {
	orphan := &Orphan{UID: "a"}
	tests := []struct {
		name   string
		update Update
		reason string
	}{
		{"nothing", Update{}, "neither Pod nor Orphan"},
		{"both", Update{Type: UpdateKill, Pod: testPod("a"), Orphan: orphan}, "both set"},
		{"no UID", Update{Pod: testPod("")}, "no UID"},
		{"orphan without UID", Update{Type: UpdateKill, Orphan: &Orphan{Name: "x"}}, "no UID"},
		{"unknown type", Update{Type: UpdateKill + 1, Pod: testPod("a")}, "unknown type 4"},
		{"kill options of a sync", Update{Pod: testPod("a"), Kill: &KillOptions{}}, "type of pod a is sync"},
		{"orphan to create", Update{Type: UpdateCreate, Orphan: orphan}, "can only be killed, not create"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkers(t, Options{})
			err := w.UpdatePod(test.update)
			require.ErrorIs(t, err, ErrInvalidUpdate)
			require.ErrorContains(t, err, test.reason)
			require.Empty(t, w.snapshot(), "nothing was recorded")
		})
	}
	require.ErrorIs(t, newWorkers(t, Options{}).KillPod(t.Context(), nil, KillOptions{}), ErrInvalidUpdate)
}

func TestRule9OrphanNeedsAnOrphanSyncer(t *testing.T) {
	orphan := Update{Type: UpdateKill, Orphan: &Orphan{UID: "a"}}
	w := newWorkers(t, Options{Syncer: podsOnly{&funcSyncer{}}})
	require.ErrorIs(t, w.UpdatePod(orphan), ErrInvalidUpdate)
	require.NoError(t, newWorkers(t, Options{Syncer: &funcSyncer{}}).UpdatePod(orphan))
}
