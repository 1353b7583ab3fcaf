// SPDX-License-Identifier: Apache-2.0

//go:build !nocsi

package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

// everyVolume is a pod with a volume of each kind. The pod runs /host/check.
const everyVolume = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  hostPID: true
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 2345}
  volumes:
    - {name: scratch, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
    - {name: host, hostPath: {path: HOST, type: Directory}}
    - {name: colours, configMap: {name: colours}}
    - {name: door, secret: {secretName: door, defaultMode: 0400}}
    - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
    - {name: all, projected: {sources: [{configMap: {name: colours}}, {secret: {name: door}}, {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}
    - {name: disk, csi: {driver: ` + csitest.DefaultName + `}}
  containers:
    - name: main
      image: localhost/busybox:1
      command: [/bin/sh, /host/check]
      volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: scratch, mountPath: /sub, subPath: deep/er}
        - {name: memory, mountPath: /memory}
        - {name: host, mountPath: /host}
        - {name: colours, mountPath: /colours}
        - {name: colours, mountPath: /part, subPath: sky}
        - {name: door, mountPath: /door}
        - {name: about, mountPath: /about}
        - {name: all, mountPath: /all}
        - {name: disk, mountPath: /disk}
`

// checkScript reads and changes the container's volumes.
const checkScript = `
{
  echo contents $(for f in colours/sky door/code about/labels all/sky all/code all/name part; do cat /$f; echo; done)
  echo modes $(stat -L -c %a:%g /colours/sky /door/code /scratch /memory)
  for m in /memory /door /about /all; do echo $m $(awk -v m=$m '$2==m {print $3}' /proc/mounts); done
  for m in /colours /part /door /about /all; do
    if echo x 2>/dev/null >$m/x || echo x 2>/dev/null >$m; then echo $m is writable; fi
  done
  for d in scratch sub memory disk host; do echo kept >/$d/data || echo $d is not writable; done
  echo group of a new file: $(stat -c %g /scratch/data)
  echo groups $(id -G)
  dd if=/dev/zero of=/memory/big bs=1k count=4096 2>/dev/null && echo memory has no limit
  rm -f /memory/big
  echo memory: $(cat /memory/data), below: $(cat /scratch/deep/er/data)
} >/host/report 2>&1
echo $$ >/host/pid.new
mv /host/pid.new /host/pid
exec sleep 1000
`

// mountsBelow returns the mounts at and below a folder as "ID target". A remounted volume has
// another ID.
func mountsBelow(t *testing.T, dir string) (mounts []string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); strings.HasPrefix(f[4], dir+"/") {
			mounts = append(mounts, f[0]+" "+f[4])
		}
	}
	slices.Sort(mounts)
	return mounts
}

// Volumes of every kind in a container of containerd: their content and permissions, the change of
// a source, a killed agent, and the cleanup.
func TestVolumesOnContainerd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	driver := newDriver(t)
	s := newStation(t, backends["containerd"])
	host, objectsDir := filepath.Join(s.dir, "host"), filepath.Join(s.dir, "objects")
	require.NoError(t, os.Mkdir(host, 0o755))
	require.NoError(t, os.Mkdir(objectsDir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(host, "check"), []byte(checkScript), 0o644))
	sky := func(colour string) {
		text := strings.ReplaceAll(strings.ReplaceAll(colours, ", namespace: house", ""), "blue", colour)
		require.NoError(t, os.WriteFile(filepath.Join(objectsDir, "all.yaml"), []byte(text), 0o600))
	}
	sky("blue")
	s.write("web.yaml", strings.ReplaceAll(everyVolume, "HOST", host))
	flags := append(socketOf(driver), "--objects-path", objectsDir)
	s.start(flags...)
	s.waitPhase("web-n", v1.PodRunning)
	var pid int
	s.eventually("the container has looked", func() bool {
		text, _ := os.ReadFile(filepath.Join(host, "pid"))
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	report, err := os.ReadFile(filepath.Join(host, "report"))
	require.NoError(t, err)
	require.Equal(t, `contents blue hunter2 app="web" blue hunter2 web-n blue
modes 644:2345 440:2345 2777:2345 3777:2345
/memory tmpfs
/door tmpfs
/about tmpfs
/all tmpfs
group of a new file: 2345
groups 0 2345
memory: kept, below: kept
`, string(report))
	mounts := mountsBelow(t, s.root)
	require.NotEmpty(t, mounts)

	inside := func(path string) string {
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "root", path))
		return strings.TrimSpace(string(text))
	}
	follow := func(colour string) time.Duration {
		changed := time.Now()
		sky(colour)
		for inside("colours/sky") != colour {
			require.Less(t, time.Since(changed), patience, "the change does not arrive")
			time.Sleep(time.Millisecond)
		}
		took := time.Since(changed)
		s.eventually("it is in the mixture, too", func() bool { return inside("all/sky") == colour })
		require.Equal(t, "blue", inside("part"), "Kubernetes shows no change in a subPath")
		return took
	}
	for _, colour := range []string{"grey", "red", "black"} {
		t.Logf("a changed ConfigMap is visible inside the container after %s (goal 50 ms)", follow(colour).Round(time.Millisecond))
	}

	t.Log("the agent is killed: the container goes on with its volumes, and so does the next agent")
	s.kill()
	require.Equal(t, mounts, mountsBelow(t, s.root))
	s.start(flags...)
	s.waitPhase("web-n", v1.PodRunning)
	require.True(t, alive(pid))
	follow("white")
	require.Equal(t, mounts, mountsBelow(t, s.root), "nothing was mounted anew")
	for _, path := range []string{"scratch/data", "sub/data", "memory/data", "disk/data", "host/data"} {
		require.Equal(t, "kept", inside(path), path)
	}
	require.Equal(t, []string{"NodePublishVolume"}, driver.Methods())

	t.Log("in the end nothing is left but what is not the pod's")
	removed := time.Now()
	s.remove("web.yaml")
	s.eventually("no mount and no folder is left", func() bool {
		left, _ := os.ReadDir(filepath.Join(s.root, "pods"))
		return len(left) == 0 && len(mountsBelow(t, s.root)) == 0
	})
	t.Logf("nothing is left %s after the manifest is gone (grace period 1 s)", time.Since(removed).Round(time.Millisecond))
	require.Empty(t, volumesOf(t, driver))
	require.FileExists(t, filepath.Join(host, "data"))
	require.NotContains(t, s.log.String(), "hunter2")
}
