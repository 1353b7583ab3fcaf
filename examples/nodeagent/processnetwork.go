// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"
)

// podNetwork is the network of pods of the process backend.
type podNetwork struct{ kind string }

// The values of --pod-network.
const (
	networkHost  = "host"
	networkPasta = "pasta"
)

func (n *podNetwork) register(set *pflag.FlagSet) {
	set.StringVar(&n.kind, "pod-network", networkHost, "network of the process backend's pods without hostNetwork: host = that of the host, pasta = a network namespace for each pod, connected by the program pasta, about 30 MiB per pod; pasta implies --confine (docs/process-backend.md)")
}

// complete validates the flag. A network namespace needs the other namespaces.
func (n *podNetwork) complete(f *flags, set *pflag.FlagSet) error {
	switch {
	case n.kind == networkHost:
		return nil
	case n.kind != networkPasta:
		return fmt.Errorf("--pod-network: %q is neither %s nor %s", n.kind, networkHost, networkPasta)
	case f.endpoint != processEndpoint:
		return errors.New("--pod-network is for the process backend; a container runtime has its own network")
	case set.Changed("confine") && !f.confine:
		return errors.New("--pod-network=pasta needs --confine: a pod's network is one of its namespaces")
	}
	f.confine = true
	return nil
}

// program returns the absolute path of the program that connects pods, "" for the host's network.
func (n *podNetwork) program() (string, error) {
	if n.kind != networkPasta {
		return "", nil
	}
	path, err := exec.LookPath(networkPasta)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("--pod-network=pasta: %w; the package is called passt in most distributions", err)
	}
	return path, nil
}
