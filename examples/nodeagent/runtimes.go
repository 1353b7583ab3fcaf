// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/logs"
	"github.com/keelson-dev/keelson/runtime/process"
)

// newRuntime opens what runs the containers. closeIt ends the connection to it,
// not the containers.
func newRuntime(ctx context.Context, f flags, log *zap.Logger) (rt runtime.Runtime, closeIt func(), err error) {
	if f.endpoint == processEndpoint {
		rt, err := process.New(process.Options{
			Root:    filepath.Join(f.root, "process"),
			HostIPs: hostIPs(),
			Lenient: f.lenient,
			Logger:  log,
		})
		return rt, func() {}, err
	}
	backend, err := dial(ctx, f, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	info := backend.Info()
	log.Info("connected to the container runtime", zap.String("runtime", info.Name), zap.String("version", info.Version))
	return backend, func() { backend.Close() }, nil
}

// dialPatience is for how long a container runtime that is not there yet is waited
// for: at boot it may come up after the agent, and after a crash with it.
// dialPause is the time between two looks.
const dialPatience, dialPause = time.Minute, 500 * time.Millisecond

// dial connects to the container runtime.
func dial(ctx context.Context, f flags, log *zap.Logger) (cri.Backend, error) {
	opts := cri.Options{Root: f.root, Logger: log}
	backend, err := cri.Dial(ctx, f.endpoint, opts)
	if err == nil {
		return backend, nil
	}
	log.Warn("the container runtime does not answer; waiting for it", zap.Duration("atMost", dialPatience), zap.Error(err))
	within, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	for {
		select {
		case <-time.After(dialPause):
		case <-within.Done():
			return nil, err
		}
		if backend, again := cri.Dial(within, f.endpoint, opts); again == nil {
			return backend, nil
		} else if within.Err() == nil {
			err = again
		}
	}
}

// rotateLogs bounds the containers' logs, where the runtime leaves that to the
// node agent; the process runtime's shims do it themselves.
func rotateLogs(ctx context.Context, f flags, rt runtime.Runtime, log *zap.Logger, wg *sync.WaitGroup) error {
	reopener, ok := rt.(logs.LogReopener)
	if !ok || f.endpoint == processEndpoint {
		return nil
	}
	rotator, err := logs.NewRotator(logs.RotatorOptions{Reopener: reopener, Logs: logs.RunningLogs(rt), Logger: log})
	if err != nil {
		return err
	}
	wg.Go(func() {
		if err := rotator.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("logs are not rotated any more", zap.Error(err))
		}
	})
	return nil
}

// lockRoot makes the root folder and sees to it that one agent uses it: two
// would start every pod twice.
func lockRoot(root string) (unlock func(), err error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("--root-dir: %w", err)
	}
	path := filepath.Join(root, "lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--root-dir: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		lock.Close()
		return nil, fmt.Errorf("another node agent uses %s; stop it or choose another --root-dir", root)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { lock.Close() }, nil
}
