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

// The agents.
const kubelet, keelson = "kubelet", "keelson"

// agentOptions describe the start of an agent.
type agentOptions struct {
	name       string // kubelet or keelson
	keelson    string // path of the node agent
	programs   string // folder of the kubelet
	dir        string // folder of the node
	log        string // file
	kubeconfig string
	authority  string // whose client certificates the node accepts
	endpoint   string // of the container runtime
	address    string // of the node
	eviction   string // the field evictionHard
}

// evictionOf returns the thresholds of evictions. Those of the disk are low, because a machine of a
// developer may be nearly full.
func evictionOf(o options) string {
	if o.eviction {
		return "{memory.available: 50Mi, nodefs.available: 30%, imagefs.available: 1%}"
	}
	return "{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}"
}

// configuration is the file that both agents read. The pods have their cgroups below one of the node, because the
// kubelet removes the cgroups of unknown pods, which may belong to other programs.
var configuration = template.Must(template.New("").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: {{.Authority}}}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: {{.Endpoint}}
staticPodPath: {{.Dir}}/manifests
podLogsDir: {{.Dir}}/podlogs
clusterDNS: [{{.DNS}}]
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
evictionHard: {{.Eviction}}
cgroupRoot: /{{.CgroupRoot}}
`))

// agent is a running kubelet or node agent.
type agent struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the process has ended
	files  systemFiles
	peak   string // of memory, as /proc says it
}

// startAgent starts an agent, which then registers its node.
func startAgent(o agentOptions) (*agent, error) {
	var text bytes.Buffer
	err := configuration.Execute(&text, struct {
		Authority, Endpoint, Dir, CgroupRoot, DNS, Eviction string
	}{o.authority, o.endpoint, o.dir, filepath.Base(o.dir), dnsService.String(), o.eviction})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.dir, "config.yaml")
	if err := errors.Join(os.WriteFile(file, text.Bytes(), 0o600), os.MkdirAll(filepath.Join(o.dir, "manifests"), 0o755)); err != nil {
		return nil, err
	}
	root := filepath.Join(o.dir, "root")
	args := []string{"--config=" + file, "--kubeconfig=" + o.kubeconfig, "--root-dir=" + root, "--cert-dir=" + filepath.Join(root, "pki"),
		"--hostname-override=" + nodeName, "--node-ip=" + o.address, "-v=2"}
	program := o.keelson
	if o.name == kubelet {
		program = filepath.Join(o.programs, "kubelet")
	}
	if err := makeCgroups(filepath.Base(o.dir)); err != nil {
		return nil, err
	}
	log, err := os.Create(o.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a := &agent{cmd: exec.Command(program, args...), log: o.log, exited: make(chan struct{}), files: saveSystemFiles()}
	a.cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + o.dir}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	// A terminal's interrupt must reach only this program.
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(a.exited)
		_ = a.cmd.Wait() // the process ends by a signal
	}()
	return a, nil
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

// isHierarchy reports whether a folder is a mounted hierarchy. systemd leaves empty folders for the
// others.
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

// removeNode unmounts and removes the folder of a node, and removes its cgroups.
func removeNode(dir string) error {
	for _, root := range cgroupRoots(filepath.Base(dir)) {
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
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // may be gone with its parent
		}
	}
	return os.RemoveAll(dir)
}

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
