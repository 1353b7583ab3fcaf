// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/runtime/logs"
)

func ExampleRead() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"0.log.20260701-120000": "2026-07-01T11:59:58Z stdout F starting\n2026-07-01T11:59:59Z stderr F careful\n",
		"0.log":                 "2026-07-01T12:00:01Z stdout P half a li\n2026-07-01T12:00:02Z stdout F ne\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	tail := int64(2)
	_, err = logs.Read(context.Background(), logs.Request{
		Path:    filepath.Join(dir, "0.log"),
		Options: logs.Options{Tail: &tail, Timestamps: true},
		Stdout:  os.Stdout,
		Stderr:  os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2026-07-01T11:59:59.000000000Z careful
	// 2026-07-01T12:00:01.000000000Z half a line
}
