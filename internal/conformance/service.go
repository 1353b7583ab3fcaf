// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// serviceName is the name of the agent's unit.
const serviceName = "kubelet-conformance.service"

// service stands in for systemd: programs named systemctl and sudo pass their arguments on to it, and
// it stops and starts the agent.
type service struct {
	server http.Server

	mu    sync.Mutex
	agent *agent
}

// newService writes the programs to dir and serves them until stop.
func newService(a *agent, dir string) (*service, error) {
	s := &service{agent: a}
	s.server.Handler = s
	socket := filepath.Join(dir, "systemd")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.RemoveAll(socket)); err != nil {
		return nil, err
	}
	for name, script := range map[string]string{
		"sudo":      "exec \"$@\"",
		"systemctl": "exec curl --silent --show-error --fail-with-body --unix-socket " + socket + " --data-raw \"$*\" http://systemd/",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	go func() { _ = s.server.Serve(listener) }() // until stop
	return s, nil
}

// stop waits for the requests under way.
func (s *service) stop() error { return s.server.Shutdown(context.Background()) }

// ServeHTTP runs a command of systemctl.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	running := true
	select {
	case <-s.agent.exited:
		running = false
	default:
	}
	switch verb := words[0]; verb {
	case "list-units":
		if running || !slices.Contains(words, "--state=running") {
			fmt.Fprintln(w, serviceName)
		}
	case "reset-failed":
	case "kill", "stop", "restart", "start":
		if running && verb != "start" {
			s.agent.terminate()
			running = false
		}
		if !running && (verb == "restart" || verb == "start") {
			err = s.agent.start()
		}
	default:
		err = fmt.Errorf("systemctl %s: not supported", text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
