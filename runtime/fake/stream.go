// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/keelson-dev/keelson/runtime"
)

// The calls for streams.
const (
	OpExecURL        Op = "ExecURL"
	OpAttachURL      Op = "AttachURL"
	OpPortForwardURL Op = "PortForwardURL"
)

var _ runtime.Streamer = (*Runtime)(nil)

// ExecURL implements runtime.Streamer. The URLs, fake://<runtime's name>/exec/<container>/<number>,
// have no server.
func (r *Runtime) ExecURL(ctx context.Context, id runtime.ContainerID, cmd []string, s runtime.Streams) (*url.URL, error) {
	if len(cmd) == 0 {
		return nil, errors.New("exec: the command is empty")
	}
	return r.containerURL(ctx, OpExecURL, "exec", id, s)
}

// AttachURL implements runtime.Streamer.
func (r *Runtime) AttachURL(ctx context.Context, id runtime.ContainerID, s runtime.Streams) (*url.URL, error) {
	return r.containerURL(ctx, OpAttachURL, "attach", id, s)
}

func (r *Runtime) containerURL(ctx context.Context, op Op, path string, id runtime.ContainerID, s runtime.Streams) (*url.URL, error) {
	if !s.Stdin && !s.Stdout && (!s.Stderr || s.TTY) {
		return nil, fmt.Errorf("%s: no stream is asked for", path)
	}
	var out *url.URL
	err := r.onContainer(ctx, op, id, fmt.Sprintf("%+v", s), func(c *container) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.state != runtime.StateRunning {
			return fmt.Errorf("%s %s, which is %s, not running", path, c.id, c.state)
		}
		out = r.streamURL(path, c.id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PortForwardURL implements runtime.Streamer.
func (r *Runtime) PortForwardURL(ctx context.Context, id runtime.SandboxID, ports []int32) (*url.URL, error) {
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return nil, fmt.Errorf("port-forward: %d is no port", p)
		}
	}
	var out *url.URL
	var notReady error
	err := r.onSandbox(ctx, OpPortForwardURL, id, func(s *sandbox) {
		if !s.ready {
			notReady = fmt.Errorf("port-forward to %s: %w", id, errNotReady)
			return
		}
		out = r.streamURL("port-forward", string(s.id))
	})
	if err = errors.Join(err, notReady); err != nil {
		return nil, err
	}
	return out, nil
}

// streamURL returns a unique URL. World.mu is held.
func (w *World) streamURL(path, id string) *url.URL {
	w.mu.urls++
	return &url.URL{Scheme: "fake", Host: w.opts.Name, Path: fmt.Sprintf("/%s/%s/%d", path, id, w.mu.urls)}
}
