// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// BenchmarkSave measures a changed pod of 110, and thus a whole new file. floor writes the same
// bytes without any sync.
func BenchmarkSave(b *testing.B) {
	const n = 110
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprint("p", i), "i:1")
	}
	b.Run("keelson", func(b *testing.B) {
		store, err := podconfig.NewStore(podconfig.StoreOptions{})
		require.NoError(b, err)
		w, err := checkpoint.New(checkpoint.Options{Path: filepath.Join(b.TempDir(), "c"), Pods: store})
		require.NoError(b, err)
		round := 0
		b.ReportAllocs()
		for b.Loop() {
			round++
			pods[0] = pod("p0", fmt.Sprint("i:", round))
			_, err := store.Merge(b.Context(), "api", podconfig.Snapshot(pods...))
			require.NoError(b, err)
			require.NoError(b, w.Save())
		}
	})
	b.Run("floor", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "c")
		b.ReportAllocs()
		for b.Loop() {
			data, err := json.Marshal(pods)
			require.NoError(b, err)
			require.NoError(b, os.WriteFile(path, data, 0o600))
		}
	})
}
