// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/logs"
	"github.com/keelson-dev/keelson/runtime/process"
)

// findHandler returns the container runtime's handler of a RuntimeClass of the API server.
type findHandler func(ctx context.Context, class string) (handler string, err error)

// newRuntime opens the runtime of --container-runtime-endpoint. closeIt closes the connection and
// leaves the containers running. find is nil without an API server.
func newRuntime(ctx context.Context, f flags, find findHandler, log *zap.Logger) (rt runtime.Runtime, closeIt func(), err error) {
	if f.endpoint == processEndpoint {
		pasta, err := f.network.program()
		if err != nil {
			return nil, nil, err
		}
		opts := process.Options{
			Pasta:       pasta,
			Root:        filepath.Join(f.root, "process"),
			HostIPs:     f.hostIPs(ctx),
			Lenient:     f.lenient,
			Confine:     f.confine,
			SeccompRoot: filepath.Join(f.root, "seccomp"),
			MaxLogSize:  int64(f.logFiles.maxSize),
			MaxLogFiles: f.logFiles.maxFiles,
			Logger:      log,
		}
		f.cgroups.limit(&opts)
		rt, err := f.images.open(f, opts)
		return rt, func() {}, err
	}
	if f.confine {
		return nil, nil, errors.New("--confine is for the process backend; a container runtime confines every container")
	}
	backend, err := dial(ctx, f, find, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	info := backend.Info()
	log.Info("connected to the container runtime", zap.String("runtime", info.Name), zap.String("version", info.Version))
	return backend, func() { backend.Close() }, nil
}

// dialPatience is how long dial waits for a container runtime, which may start after the agent at
// boot or restart after a crash. dialPause is the time between two attempts.
const dialPatience, dialPause = time.Minute, 500 * time.Millisecond

// dial connects to the container runtime of --container-runtime-endpoint.
func dial(ctx context.Context, f flags, find findHandler, log *zap.Logger) (cri.Backend, error) {
	opts := cri.Options{Root: f.root, DNS: f.dns.options(), FindHandler: find, Logger: log}
	f.cri.apply(&opts)
	f.cgroups.apply(&opts)
	backend, err := cri.Dial(ctx, f.endpoint, opts)
	if err == nil {
		return backend, nil
	}
	log.Warn("the container runtime does not answer; waiting for it", zap.Duration("atMost", dialPatience), zap.Error(err))
	within, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	for retry.Sleep(within, dialPause) == nil {
		if backend, again := cri.Dial(within, f.endpoint, opts); again == nil {
			return backend, nil
		} else if within.Err() == nil {
			err = again
		}
	}
	return nil, err
}

// rotateLogs starts log rotation for a container runtime. The shims of the process runtime rotate
// logs themselves.
func rotateLogs(ctx context.Context, f flags, rt runtime.Runtime, log *zap.Logger, wg *sync.WaitGroup) error {
	reopener, ok := rt.(logs.LogReopener)
	if !ok || f.endpoint == processEndpoint {
		return nil
	}
	rotator, err := logs.NewRotator(logs.RotatorOptions{
		Reopener: reopener, Logs: logs.RunningLogs(rt), MaxSize: int64(f.logFiles.maxSize), MaxFiles: f.logFiles.maxFiles, Logger: log,
	})
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
