// SPDX-License-Identifier: Apache-2.0

//go:build !nohotplug

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// device is a device node below /dev with a link as udev makes it.
type device struct {
	testing.TB
	dir, link string
}

func newDevice(t *testing.T) device {
	dir, err := os.MkdirTemp("/dev", "keelson-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := device{t, dir, filepath.Join(dir, "by-id")}
	if err := syscall.Mknod(filepath.Join(dir, "try"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skip(err)
	}
	return d
}

// plug makes the device with a minor number: 3 is /dev/null, 5 is /dev/zero, 7 is /dev/full.
func (d device) plug(minor int) {
	node := filepath.Join(d.dir, fmt.Sprint("tty", minor))
	require.NoError(d, syscall.Mknod(node, syscall.S_IFCHR|0o666, 1<<8|minor))
	require.NoError(d, os.Symlink(node, d.link))
}

func (d device) unplug(minor int) {
	require.NoError(d, os.Remove(filepath.Join(d.dir, fmt.Sprint("tty", minor))))
	require.NoError(d, os.Remove(d.link))
}

// A device is unplugged and comes back with another number. The container opens the new one, and no
// longer the old one.
func TestHotplug(t *testing.T) {
	for _, name := range []string{"process", "containerd"} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t, backends[name])
			d := newDevice(t)
			at := "/dev/meter"
			if name == "process" {
				at = d.link // a process sees the host's devices
			}
			s.write("meter.yaml", `apiVersion: v1
kind: Pod
metadata: {name: meter, annotations: {keelson.dev/unplugged: Stop}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    command: [/bin/sh, -c, 'echo device $(stat -L -c %T `+at+`) $(: <`+at+` && echo opened); while :; do sleep 0.2; done']
    volumeMounts: [{name: meter, mountPath: `+at+`}]
  volumes: [{name: meter, hostPath: {path: `+d.link+`, type: CharDevice}}]
`)
			s.start()
			said := func(minor int) func() bool {
				return func() bool {
					logs, _ := filepath.Glob(filepath.Join(s.root, "logs", "*", "main", "*.log"))
					for _, log := range logs {
						if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), fmt.Sprintf("device %d opened", minor)) {
							return true
						}
					}
					return false
				}
			}
			s.eventually("the pod waits for the device", func() bool {
				return strings.Contains(s.log.String(), "device "+d.link+" of volume meter: is not plugged in")
			})
			for i, minor := range []int{3, 5, 7} {
				begin := time.Now()
				d.plug(minor)
				s.eventually(fmt.Sprint("the container opens device ", minor), said(minor))
				t.Logf("%s: opened %v after plug %d", name, time.Since(begin).Round(time.Millisecond), i)
				s.waitPhase("meter-n", v1.PodRunning)
				if minor != 7 {
					if minor == 5 { // unplugged while no agent runs
						s.kill()
					}
					d.unplug(minor)
					if minor == 5 {
						s.start()
					}
					s.eventually("the container is stopped", func() bool {
						pod, ok := s.pods()["meter-n"]
						return ok && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running == nil
					})
				}
			}
		})
	}
}
