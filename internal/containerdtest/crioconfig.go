// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"fmt"
	"os"
	"path/filepath"
)

// crioConfig is CRI-O's configuration. Paths that are not in the folder of the instance belong to
// the machine. Features that need a C library or systemd are off.
const crioConfig = `[crio]
root = "{{.Root}}"
runroot = "{{.State}}"
storage_driver = "{{.Snapshotter}}"
log_dir = "{{.Dir}}/logs"
version_file = "{{.Dir}}/version"
version_file_persist = "{{.Dir}}/version-persist"
clean_shutdown_file = "{{.Dir}}/clean"
internal_wipe = false
[crio.api]
listen = "{{.Socket}}"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "{{.Pinns}}"
namespaces_dir = "{{.Dir}}/ns"
container_exits_dir = "{{.Dir}}/exits"
container_attach_socket_dir = "{{.Dir}}/attach"
hooks_dir = []
irqbalance_config_file = ""
irqbalance_config_restore_file = "disable"
[crio.runtime.runtimes.runc]
runtime_path = "{{.Runc}}"
runtime_root = "{{.RuncRoot}}"
monitor_path = "{{.Conmon}}"
[crio.image]
pause_image = "{{.Pause}}"
pause_command = "/bin/sleep 2147483647"
signature_policy = "{{.Dir}}/policy.json"
short_name_mode = "disabled"
[crio.network]
network_dir = "{{.CNIConf}}"
plugin_dirs = ["{{.CNIDir}}"]
[crio.nri]
enable_nri = false
`

// anyImage is a policy that accepts images without signatures.
const anyImage = `{"default": [{"type": "insecureAcceptAnything"}]}`

// crioLayout is a layout with the programs of CRI-O.
type crioLayout struct {
	layout
	Pinns, Runc, Conmon string
	Dir                 string
}

func (l crioLayout) Socket() string { return filepath.Join(l.dir, "crio.sock") }

// registries returns the path of the file with the registries, in the home folder of CRI-O.
func (l crioLayout) registries() string {
	return filepath.Join(l.dir, ".config", "containers", "registries.conf")
}

// write writes the configuration files. Images of localhost come from the first registry.
func (l crioLayout) write(registries []*Registry) error {
	config, err := render(crioConfig, l)
	if err != nil {
		return err
	}
	network, err := render(networkConfig, l)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("[[registry]]\nprefix = \"localhost\"\nlocation = %q\ninsecure = true\n", registries[0].Host)
	for _, r := range registries {
		text += fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", r.Host)
	}
	for _, dir := range []string{l.CNIConf(), filepath.Dir(l.registries())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, content := range map[string][]byte{
		l.config():                          config,
		l.registries():                      []byte(text),
		filepath.Join(l.dir, "policy.json"): []byte(anyImage),
		filepath.Join(l.CNIConf(), "10-keelson.conflist"): network,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
