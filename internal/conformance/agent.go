// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

// configurationFile is the name of the agent's configuration file. Upstream's specs of nodes write it.
const configurationFile = "kubelet-config"

// stopTimeout limits the end of an agent after SIGTERM.
const stopTimeout = 20 * time.Second

// The agents.
const kubelet, keelson = "kubelet", "keelson"

// agentOptions describe the start of an agent.
type agentOptions struct {
	name       string // kubelet or keelson
	keelson    string // path of the node agent
	flags      string // further flags of the node agent
	programs   string // folder of the kubelet
	dir        string // folder of the node
	log        string // file
	kubeconfig string
	authority  string // whose client certificates the node accepts
	endpoint   string // of the container runtime
	address    string // of the node
	pressure   string // fields of the configuration
	node       bool   // for upstream's specs of nodes
}

// root returns the folder of the agent. Upstream's specs of nodes look into the kubelet's own.
func (o *agentOptions) root() string {
	if o.node {
		return kubeletRoot
	}
	return filepath.Join(o.dir, "root")
}

// cgroup returns the parent of the pods' cgroups. Upstream's specs of nodes run in a cgroup
// namespace of their own.
func (o *agentOptions) cgroup() string {
	if o.node {
		return "/"
	}
	return "/" + filepath.Base(o.dir)
}

// configuration is the file that both agents read. The cgroups of the pods are below a cgroup of
// the node, because the kubelet removes the cgroups of unknown pods, which may belong to other
// programs.
var configuration = template.Must(template.New("").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
{{if .Node}}authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
readOnlyPort: 10255
fileCheckFrequency: 10s
serializeImagePulls: false
{{else}}authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: {{.Authority}}}}
authorization: {mode: Webhook}
podLogsDir: {{.Dir}}/podlogs
{{end}}containerRuntimeEndpoint: {{.Endpoint}}
staticPodPath: {{.Dir}}/manifests
clusterDNS: [{{.DNS}}]
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
{{.Pressure}}cgroupRoot: {{.CgroupRoot}}
`))

// agent is a running kubelet or node agent.
type agent struct {
	program string
	args    []string
	env     []string
	cmd     *exec.Cmd // the last process
	log     string
	exited  chan struct{} // closed when the process has ended
	files   systemFiles
	peak    string // of memory, as /proc says it
}

// startAgent starts an agent, which then registers its node.
func startAgent(o agentOptions) (*agent, error) {
	var text bytes.Buffer
	err := configuration.Execute(&text, struct {
		Authority, Endpoint, Dir, CgroupRoot, DNS, Pressure string
		Node                                                bool
	}{o.authority, o.endpoint, o.dir, o.cgroup(), dnsService.String(), o.pressure, o.node})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.dir, configurationFile)
	if err := errors.Join(os.WriteFile(file, text.Bytes(), 0o600), os.MkdirAll(filepath.Join(o.dir, "manifests"), 0o755)); err != nil {
		return nil, err
	}
	root := o.root()
	args := []string{"--config=" + file, "--kubeconfig=" + o.kubeconfig, "--root-dir=" + root, "--cert-dir=" + filepath.Join(root, "pki"),
		"--hostname-override=" + nodeName, "--node-ip=" + o.address, "-v=2"}
	program := filepath.Join(o.programs, "kubelet")
	if o.name == keelson {
		program, args = o.keelson, append(args, strings.Fields(o.flags)...)
	}
	if err := makeCgroups(strings.TrimPrefix(o.cgroup(), "/")); err != nil {
		return nil, err
	}
	a := &agent{
		program: program, args: args, log: o.log, files: saveSystemFiles(),
		env: []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + o.dir},
	}
	if o.node && o.name == keelson {
		if err := os.WriteFile(overcommit, []byte("1"), 0); err != nil {
			return nil, err
		}
	}
	return a, a.start()
}

// start starts the process, which must not be running.
func (a *agent) start() error {
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, exited := exec.Command(a.program, a.args...), make(chan struct{})
	cmd.Env, cmd.Stdout, cmd.Stderr = a.env, log, log
	// A terminal's interrupt must reach only this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.cmd, a.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the process ends by a signal
	}()
	return nil
}

// terminate asks the process to end, and waits for the end.
func (a *agent) terminate() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-a.exited:
	case <-time.After(stopTimeout):
		_ = a.cmd.Process.Kill()
		<-a.exited
	}
}

// stop kills the agent. The pods are removed with containerd.
func (a *agent) stop() {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			a.peak = strings.TrimSpace(peak)
		}
	}
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.exited
	a.files.restore()
}

// usage describes the resources that the agent used until its end.
func (a *agent) usage() string {
	cpu := a.cmd.ProcessState.UserTime() + a.cmd.ProcessState.SystemTime()
	return fmt.Sprintf("%s CPU, %s at most", cpu.Round(100*time.Millisecond), a.peak)
}

func (a *agent) logTail() string {
	const lines = 30
	text, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// cgroups is the mount point of the cgroup file systems.
const cgroups = "/sys/fs/cgroup"

// cgroupRoots returns the path of a cgroup in all hierarchies.
func cgroupRoots(name string) []string {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroups, name)}
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroups, "*"))
	if err != nil {
		return nil
	}
	var roots []string
	for _, hierarchy := range hierarchies {
		if info, err := os.Lstat(hierarchy); err == nil && info.IsDir() && isHierarchy(hierarchy) {
			roots = append(roots, filepath.Join(hierarchy, name))
		}
	}
	return roots
}

// isHierarchy reports whether a folder is a mounted hierarchy. systemd leaves empty folders for
// hierarchies that are not mounted.
func isHierarchy(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && (fs.Type == unix.CGROUP_SUPER_MAGIC || fs.Type == unix.CGROUP2_SUPER_MAGIC)
}

// makeCgroups makes a cgroup in all hierarchies.
func makeCgroups(name string) error {
	for _, root := range cgroupRoots(name) {
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// removeCgroups removes a cgroup, with the cgroups below, from all hierarchies.
func removeCgroups(name string) error {
	for _, root := range cgroupRoots(name) {
		var children []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				children = append(children, path)
			}
			return nil // a cgroup that is gone needs no removal
		})
		for i := len(children) - 1; i >= 0; i-- {
			_ = os.Remove(children[i]) // one with a process that is about to end stays
		}
	}
	return nil
}

// removeNode unmounts and removes the folder of a node, and removes its cgroups.
func removeNode(dir string) error {
	if err := removeCgroups(filepath.Base(dir)); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // may be gone with its parent
		}
	}
	return errors.Join(os.RemoveAll(dir), os.RemoveAll(diskOf(dir)))
}

// overcommit is a setting of the kernel. With 1, a program may allocate more memory than the
// machine has, as one of the specs of nodes does. The kubelet sets 1. The node agent leaves the
// setting to the administrator.
const overcommit = "/proc/sys/vm/overcommit_memory"

// systemFiles are settings of the kernel that a kubelet changes: contents by path.
type systemFiles map[string][]byte

// saveSystemFiles reads the settings.
func saveSystemFiles() systemFiles {
	files := systemFiles{}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		path := filepath.Join("/proc/sys", name)
		if text, err := os.ReadFile(path); err == nil {
			files[path] = text
		}
	}
	return files
}

// restore writes the settings back.
func (s systemFiles) restore() {
	for path, text := range s {
		_ = os.WriteFile(path, text, 0) // a setting that the kubelet cannot change, either
	}
}
