// SPDX-License-Identifier: Apache-2.0

// Package csitest is a small working CSI driver: its volumes are folders of this machine, and it
// speaks the real protocol on a unix socket. Use it for tests of code with CSI volumes, and to try
// CSI volumes without a cluster.
//
//	driver, err := csitest.New(csitest.Options{Dir: dir, Socket: filepath.Join(dir, "csi.sock")})
//	if err != nil {
//		return err
//	}
//	go driver.Run(ctx) // returns when ctx has ended and every call has returned
//	<-driver.Listening()
//
// A volume with handle h is the folder <Dir>/volumes/h, created at the first use and never removed.
// The folder of an inline volume is removed with the pod. If the process may mount, volumes are
// bind mounts, else links.
//
// The driver keeps a journal of calls, and Options.Fault makes calls fail. The driver has no
// controller service and checks no capacities. A block volume is the file <Dir>/volumes/h, which
// the driver does not create.
package csitest
