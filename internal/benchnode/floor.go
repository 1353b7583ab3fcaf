// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// script appends its process ID to a file on the host.
func script(marks, name string) []string {
	return []string{"/bin/sh", "-c", fmt.Sprintf("echo $$ >> %s/%s; exec sleep 100000", marks, name)}
}

// floor makes only the necessary CRI calls.
type floor struct {
	runtime cri.RuntimeServiceClient
	dir     string
	traced  func() // if set, called by many when all run
}

// floorPod is a pod created by the floor.
type floorPod struct {
	sandbox   string
	config    *cri.PodSandboxConfig
	container string
}

func (f *floor) marks() string {
	dir := filepath.Join(f.dir, "floor")
	_ = os.MkdirAll(dir, 0o755)
	return dir
}

func (f *floor) start(ctx context.Context, name string) (*floorPod, error) {
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_NODE}
	p := &floorPod{config: &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "floor", Uid: name},
		LogDirectory: filepath.Join(f.dir, "floorlogs", name),
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: host, Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
		}},
	}}
	r, err := f.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return nil, err
	}
	p.sandbox = r.PodSandboxId
	return p, f.startContainer(ctx, p, name, 0)
}

func (f *floor) startContainer(ctx context.Context, p *floorPod, name string, attempt uint32) error {
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_NODE}
	c, err := f.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "main", Attempt: attempt},
			Image:    &cri.ImageSpec{Image: containerdtest.BusyboxImage},
			Command:  script(f.marks(), name),
			Mounts:   []*cri.Mount{{HostPath: f.marks(), ContainerPath: f.marks()}},
			LogPath:  fmt.Sprintf("main-%d.log", attempt),
			Linux:    &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: host}},
		},
	})
	if err != nil {
		return err
	}
	p.container = c.ContainerId
	_, err = f.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId})
	return err
}

// restart restarts a killed container, as soon as the runtime reports its end.
func (f *floor) restart(ctx context.Context, p *floorPod, name string, attempt uint32) error {
	for {
		r, err := f.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: p.container})
		if err != nil {
			return err
		}
		if r.Status.State == cri.ContainerState_CONTAINER_EXITED {
			return f.startContainer(ctx, p, name, attempt)
		}
		time.Sleep(time.Millisecond)
	}
}

func (f *floor) remove(ctx context.Context, p *floorPod) error {
	_, err := f.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	_, removeErr := f.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	return errors.Join(err, removeErr)
}

// many starts n pods, atOnce of them at a time, and returns when all run.
func (f *floor) many(ctx context.Context, n, atOnce int) (time.Duration, error) {
	pods, errs := make([]*floorPod, n), make([]error, n)
	names := make([]string, n)
	slots := make(chan struct{}, atOnce)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		names[i] = fmt.Sprintf("many-%d-%d", atOnce, i)
		wg.Go(func() {
			slots <- struct{}{}
			pods[i], errs[i] = f.start(ctx, names[i])
			<-slots
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	for _, name := range names {
		if _, err := waitMarks(ctx, f.marks(), name, 1); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	if f.traced != nil {
		f.traced()
	}
	for _, p := range pods {
		errs = append(errs, f.remove(ctx, p))
	}
	return took, errors.Join(errs...)
}

// waitMarks waits until a pod's script has run the given number of times, and returns the recorded
// process IDs.
func waitMarks(ctx context.Context, dir, name string, times int) ([]int, error) {
	deadline := time.Now().Add(2 * time.Minute)
	for ctx.Err() == nil {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		if lines := strings.Fields(string(text)); len(lines) >= times && strings.HasSuffix(string(text), "\n") {
			pids := make([]int, len(lines))
			for i, line := range lines {
				pids[i], _ = strconv.Atoi(line)
			}
			return pids, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s did not run %d times within two minutes", name, times)
		}
		time.Sleep(500 * time.Microsecond)
	}
	return nil, ctx.Err()
}
