// SPDX-License-Identifier: Apache-2.0

package statfs_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/imagegc/statfs"
)

func Example() {
	capacity, available, err := statfs.Path("/").ImageFS(context.Background())
	fmt.Println(capacity > 0, available <= capacity, err)
	// Output: true true <nil>
}
