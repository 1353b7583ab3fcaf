// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/runtime/cri"
)

// An agent started before its container runtime dials again.
func ExampleDial() {
	rt, err := cri.Dial(context.Background(), "unix:///run/nobody/here.sock", cri.Options{Root: "/var/lib/kubelet"})
	if errors.Is(err, cri.ErrUnavailable) {
		fmt.Println("try again:", err)
		return
	}
	defer rt.Close()
	fmt.Println(rt.Name())
	// Output: try again: cri: the container runtime cannot be reached: there is no socket /run/nobody/here.sock: is the container runtime running?
}
