// SPDX-License-Identifier: Apache-2.0

// Package proc looks at processes, waits for their end and kills them, without
// ever mistaking one process for another that got its PID later: a process is
// named by its PID and the time it started.
//
// On Linux it reads /proc and waits with pidfds (Linux 5.3). Elsewhere it asks
// the kernel by sysctl and polls.
package proc
