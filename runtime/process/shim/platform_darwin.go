// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"syscall"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// prepare does what can be done here, which is little: there are no subreapers,
// so what escapes the container's process group by a double fork stays.
func prepare(spec record.Spec) error {
	if spec.NoNewPrivs {
		return errors.New("allowPrivilegeEscalation: false cannot be honoured on this system")
	}
	return nil
}

// containerAttr is how a container's main process starts: leader of its own
// session and process group.
func containerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// descriptors is the folder that lists this process's open descriptors.
const descriptors = "/dev/fd"
