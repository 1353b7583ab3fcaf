// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containerdtest

// PIDs are the processes of an instance; always empty on this system.
type PIDs struct{ Containerd, Shims, Containers []int }

// PIDs returns nothing, because instances exist only on Linux.
func (i *Instance) PIDs() PIDs { return PIDs{} }

func removeInstance(layout) error { return nil }

func onOverlay(string) bool { return false }
