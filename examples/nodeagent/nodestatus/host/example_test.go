// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

// Example reads the memory of a machine whose files are in a folder, for example a host's files
// mounted in a container.
func Example() {
	root, err := os.MkdirTemp("", "host")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	meminfo := "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n"
	if err := os.WriteFile(filepath.Join(root, "proc", "meminfo"), []byte(meminfo), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	all, available := host.Machine{Root: root}.Memory()
	fmt.Println(available>>10, "of", all>>10, "KiB are available")
	// Output:
	// 1024 of 2048 KiB are available
}
