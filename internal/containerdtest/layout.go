// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	folderPrefix = "keelson-ctd-"
	// maxSocket is the maximum length of a unix socket path, including the terminating NUL.
	maxSocket = 108
	// namespace is where containerd's CRI plugin puts everything.
	namespace = "k8s.io"
)

// layout holds the paths and names of one instance.
type layout struct {
	dir     string
	Network string // of CNI, and the name of the bridge: at most 15 bytes
	Subnet  string
	CNIDir  string // of the plugins' binaries

	Snapshotter string
	Pause       string
	Handlers    []string // in addition to runc
	HostPorts   bool
}

// newLayout returns the layout of the instance in dir with the given slot, which must be less than
// maxSlots. A subnet has 2,046 addresses, so that an address is not used again while the kernel's
// neighbour table still has the hardware address of its last pod. Otherwise a connection to the
// next pod would take more than ten seconds.
func newLayout(dir string, slot int) layout {
	return layout{
		dir: dir, Pause: PauseImage, Snapshotter: "overlayfs",
		Network: fmt.Sprintf("keelson%d", slot), Subnet: fmt.Sprintf("10.88.%d.0/21", slot*256/maxSlots),
	}
}

// The methods below are also used by the templates.

func (l layout) Root() string     { return filepath.Join(l.dir, "root") }
func (l layout) State() string    { return filepath.Join(l.dir, "state") }
func (l layout) Opt() string      { return filepath.Join(l.dir, "opt") }
func (l layout) Socket() string   { return filepath.Join(l.dir, "containerd.sock") }
func (l layout) CNIConf() string  { return filepath.Join(l.dir, "cni") }
func (l layout) CNIData() string  { return filepath.Join(l.dir, "cni-data") }
func (l layout) RuncRoot() string { return filepath.Join(l.dir, "runc") }
func (l layout) Hosts() string    { return filepath.Join(l.dir, "hosts") }
func (l layout) tmp() string      { return filepath.Join(l.dir, "tmp") }
func (l layout) config() string   { return filepath.Join(l.dir, "config.toml") }
func (l layout) log() string      { return filepath.Join(l.dir, "containerd.log") }

// bundles returns the runtime plugin's folder, with one folder per container and sandbox, named by
// ID.
func (l layout) bundles() string {
	return filepath.Join(l.State(), "io.containerd.runtime.v2.task", namespace)
}

// makeFolder makes the folder of an instance. Its path is short enough for sockets, and its mode
// lets users of user namespaces reach their root file systems.
func makeFolder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, folderPrefix)
	if err == nil && parent == "" && len(layout{dir: dir}.Socket())+len(".ttrpc") >= maxSocket {
		if err := os.Remove(dir); err != nil {
			return "", err
		}
		dir, err = os.MkdirTemp("/tmp", folderPrefix)
	}
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// write writes the configuration files for containerd of version v.
func (l layout) write(v version) error {
	config, err := configFor(l, v)
	if err != nil {
		return err
	}
	network, err := render(networkConfig, l)
	if err != nil {
		return err
	}
	return errors.Join(
		os.Mkdir(l.tmp(), 0o700), os.Mkdir(l.CNIConf(), 0o700),
		os.WriteFile(l.config(), config, 0o600),
		os.WriteFile(filepath.Join(l.CNIConf(), "10-keelson.conflist"), network, 0o600),
	)
}
