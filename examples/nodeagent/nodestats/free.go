// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Free is the part of the node's resources that is not in use.
type Free struct {
	At         time.Time
	Memory     Amount // in bytes
	Pods       Amount // memory of all pods in bytes, with Options.PodsCgroup and a limit there
	ProcessIDs Amount
	Node       Disk // the file system of Options.Root
	Images     Disk // the file system of Options.ImageFS
}

// Amount is a resource. A Capacity of 0 means that the resource is unknown or unlimited.
type Amount struct{ Capacity, Available int64 }

// Disk is a file system. Bytes.Capacity is 0 if the file system is not known.
type Disk struct {
	Bytes, Inodes Amount
	Device        uint64 // identifies the file system on this machine
}

// Free measures the free resources. It walks no folder and asks no container. The error is that of
// Options.ImageFS; the result is complete except for Images.
func (c *Collector) Free(ctx context.Context) (Free, error) {
	f := Free{At: time.Now(), Node: diskOf(c.Root)}
	usage, total := c.machineUsage()
	f.Memory = Amount{total, int64(usage.Memory.Available)}
	if most, used := c.Machine.ProcessIDs(); most > 0 {
		f.ProcessIDs = Amount{most, max(most-used, 0)}
	}
	if c.PodsCgroup != "" && c.Cgroups != nil {
		if m, ok := c.Cgroups.Memory(c.PodsCgroup); ok {
			f.Pods = Amount{int64(m.Limit), int64(m.Limit - min(m.Limit, m.WorkingSet))}
		}
	}
	if c.ImageFS == nil {
		return f, nil
	}
	images, err := c.ImageFS(ctx)
	if err == nil {
		f.Images = diskOf(images.Mountpoint)
	}
	return f, err
}

// diskOf returns the file system of a folder. It is unknown if the folder cannot be read.
func diskOf(folder string) (d Disk) {
	info, err := os.Stat(folder)
	if err != nil {
		return d
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		d.Device = uint64(st.Dev)
	}
	s := systemOf(folder)
	d.Bytes, d.Inodes = Amount{s.bytes, s.available}, Amount{s.inodes, s.inodesFree}
	return d
}
