// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func ExampleNone() {
	var mounter mount.Mounter = mount.None{} // or mount.Detect()
	err := mounter.Mount(context.Background(), mount.Request{Source: "tmpfs", Target: "/mnt", Type: "tmpfs"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, mount.ErrUnsupported))
	// Output:
	// mount tmpfs at /mnt: this agent cannot mount
	// true
}
