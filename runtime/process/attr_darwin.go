// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"syscall"
)

// execAttr is how a command of Exec starts: leader of its own session and
// process group.
func execAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// dropPrivileges cannot be done here.
func dropPrivileges() error {
	return errors.New("allowPrivilegeEscalation: false cannot be honoured on this system")
}
