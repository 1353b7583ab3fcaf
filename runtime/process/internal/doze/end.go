// SPDX-License-Identifier: Apache-2.0

package doze

import "golang.org/x/sys/unix"

// End lets a sleeper end a container without its program of Go: the sleeper passes the stop signal on,
// and writes the record of the end. It executes the program nevertheless if there is output, if the start
// was not completed, if processes of the container are left, or if a call fails. Needs Linux 6.9.
type End struct {
	// The descriptors of a pidfd of the main process, of the Statement, of memory for the
	// record.End of a main process that was reaped, and of the container's output.
	Main, Statement, Report int
	Outputs                 []int
	Stop                    unix.Signal // of the container
}
