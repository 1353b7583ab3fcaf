// SPDX-License-Identifier: Apache-2.0

// Package proc inspects processes, waits for their end and kills them. A process is identified by
// its PID and start time, and is never confused with a later process with the same PID.
//
// On Linux the package reads /proc and waits with pidfds (Linux 5.3). On other systems it asks the
// kernel by sysctl, and polls.
package proc
