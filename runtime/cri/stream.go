// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

var (
	errNoStream  = errors.New("want one of standard input, output and error at least")
	errNoCommand = errors.New("no command")
)

// checkStreams refuses combinations undefined in the CRI.
func checkStreams(s runtime.Streams) error {
	if !s.Stdin && !s.Stdout && (!s.Stderr || s.TTY) {
		return errNoStream
	}
	return nil
}

// ExecURL implements runtime.Streamer.
func (r *client) ExecURL(ctx context.Context, id runtime.ContainerID, cmd []string, s runtime.Streams) (*url.URL, error) {
	switch err := checkStreams(s); {
	case !goodID(id.ID):
		return nil, notFound("Exec", id.ID)
	case err != nil:
		return nil, fmt.Errorf("Exec: %w", err)
	case len(cmd) == 0:
		return nil, fmt.Errorf("Exec: %w", errNoCommand)
	}
	answer, err := do(ctx, callTimeout, "Exec", r.cri.Exec, &api.ExecRequest{
		ContainerId: id.ID, Cmd: cmd, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr && !s.TTY, Tty: s.TTY,
	})
	if err != nil {
		return nil, err
	}
	return streamURL("Exec", answer.GetUrl())
}

// AttachURL implements runtime.Streamer.
func (r *client) AttachURL(ctx context.Context, id runtime.ContainerID, s runtime.Streams) (*url.URL, error) {
	switch err := checkStreams(s); {
	case !goodID(id.ID):
		return nil, notFound("Attach", id.ID)
	case err != nil:
		return nil, fmt.Errorf("Attach: %w", err)
	}
	answer, err := do(ctx, callTimeout, "Attach", r.cri.Attach, &api.AttachRequest{
		ContainerId: id.ID, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr && !s.TTY, Tty: s.TTY,
	})
	if err != nil {
		return nil, err
	}
	return streamURL("Attach", answer.GetUrl())
}

// PortForwardURL implements runtime.Streamer.
func (r *client) PortForwardURL(ctx context.Context, id runtime.SandboxID, ports []int32) (*url.URL, error) {
	if !goodID(string(id)) {
		return nil, notFound("PortForward", string(id))
	}
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return nil, fmt.Errorf("PortForward: %d is no port", p)
		}
	}
	answer, err := do(ctx, callTimeout, "PortForward", r.cri.PortForward, &api.PortForwardRequest{PodSandboxId: string(id), Port: ports})
	if err != nil {
		return nil, err
	}
	return streamURL("PortForward", answer.GetUrl())
}

// streamURL reads a runtime's answer. Errors do not contain the answer, because the URL grants
// access.
func streamURL(call, answer string) (*url.URL, error) {
	u, err := url.Parse(answer)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, &CallError{Call: call, Message: "the runtime answered with an invalid URL"}
	}
	return u, nil
}
