// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/runtime/logs"
)

// Example_follow is kubectl logs -f --since-time --limit-bytes: Read goes on until the container
// has terminated or the limit is reached.
func Example_follow() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "0.log")
	text := "2026-07-01T11:00:00Z stdout F too old\n2026-07-01T12:00:00Z stdout F first\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	limit := int64(1 << 20)
	_, err = logs.Read(context.Background(), logs.Request{
		Path:   path,
		Stdout: os.Stdout,
		Options: logs.Options{
			Follow:     true,
			Since:      time.Date(2026, 7, 1, 11, 30, 0, 0, time.UTC),
			LimitBytes: &limit,
		},
		Running: func(context.Context) (bool, error) { // in a program: asks the runtime
			err := os.WriteFile(path, []byte(text+"2026-07-01T12:00:01Z stdout F last words\n"), 0o600)
			return false, err
		},
	})
	fmt.Println(err)
	// Output:
	// first
	// last words
	// <nil>
}
