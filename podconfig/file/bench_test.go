// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// BenchmarkScanOfUnchangedFiles measures the periodic work of an idle source.
func BenchmarkScanOfUnchangedFiles(b *testing.B) {
	for _, n := range []int{10, 50, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				path := filepath.Join(dir, fmt.Sprintf("%04d.yaml", i))
				require.NoError(b, os.WriteFile(path, []byte(pod(fmt.Sprintf("p%d", i), "i")), 0o644))
			}
			s, err := file.New(file.Config{Path: dir, Decoder: &manifest.Decoder{NodeName: "n"}})
			require.NoError(b, err)
			time.Sleep(3200 * time.Millisecond) // until the files are old enough to be trusted
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Scan(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
