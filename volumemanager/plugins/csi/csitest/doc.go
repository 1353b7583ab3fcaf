// SPDX-License-Identifier: Apache-2.0

// Package csitest is a small CSI driver that really works: its volumes are folders of this machine, and it speaks the
// real protocol on a unix socket. It is for tests of those who use CSI volumes, and for trying them without a cluster.
//
//	driver, err := csitest.New(csitest.Options{Dir: dir, Socket: filepath.Join(dir, "csi.sock")})
//	if err != nil {
//		return err
//	}
//	go driver.Run(ctx) // returns when ctx has ended and every call has returned
//	<-driver.Listening()
//
// A volume with handle h is the folder <Dir>/volumes/h, made when it is first used and never removed; that of an inline
// volume is removed with the pod. Where the process may mount, volumes are bind mounts, else links.
//
// It keeps a journal of calls, and a Fault makes it refuse them. It has no controller service, does not check
// capacities, and takes a block volume to be <Dir>/volumes/h as a file, which it does not make.
package csitest
