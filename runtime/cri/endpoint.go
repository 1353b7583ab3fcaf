// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// parseEndpoint returns the socket's path of "unix:///path" or "/path".
func parseEndpoint(endpoint string) (string, error) {
	path := endpoint
	if scheme, rest, ok := strings.Cut(endpoint, "://"); ok {
		if scheme != "unix" {
			return "", fmt.Errorf("endpoint %q: only unix sockets, as in unix:///run/containerd/containerd.sock", endpoint)
		}
		path = rest
	}
	switch {
	case path == "":
		return "", fmt.Errorf("endpoint %q: names no socket", endpoint)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("endpoint %q: the socket's path is not absolute", endpoint)
	}
	return filepath.Clean(path), nil
}

// checkSocket returns an error if path is missing or is not a socket.
func checkSocket(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no socket %s: is the container runtime running?", ErrUnavailable, path)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is no socket but has mode %s", path, info.Mode())
	}
	return nil
}
