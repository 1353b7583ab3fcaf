// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// asAnotherUser runs tests again as a user without rights. mounts are files that are mounted over others meanwhile.
func asAnotherUser(t *testing.T, tests string, mounts map[string]string) {
	const user = 65534
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("process-user-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, user, user))
	binary, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	program := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(program, binary, 0o755))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", tests)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), nobodyEnv+"=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	var out []byte
	done := make(chan error)
	go func() { // its thread, with other mounts, ends with the goroutine
		goruntime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		for over, from := range mounts {
			err = errors.Join(err, unix.Mount(from, over, "", unix.MS_BIND, ""))
		}
		if err == nil {
			out, err = cmd.CombinedOutput()
		}
		done <- err
	}()
	assert.NoError(t, <-done, "%s", out)
	assert.NotRegexp(t, `(?m)^--- SKIP|--- SKIP: TestUsersOfImages`, string(out))
}

// openTun returns a /dev/net/tun for every user.
func openTun(t *testing.T) (path string) {
	path = filepath.Join(t.TempDir(), "tun")
	require.NoError(t, unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(10, 200))))
	require.NoError(t, os.Chmod(path, 0o666))
	return path
}

// firstID is the first subordinate ID in the tests.
const firstID = 300000

// TestSubordinateIDs runs the tests below as a user with subordinate IDs.
func TestSubordinateIDs(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(nobodyEnv) != "" {
		t.Skip("for root")
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		t.Skip(err)
	}
	newNetworked(t)
	tun := openTun(t)
	ids := filepath.Join(t.TempDir(), "ids")
	require.NoError(t, os.WriteFile(ids, fmt.Appendf(nil, "someone:1:5\n65534:%d:65536\n", firstID), 0o644))
	asAnotherUser(t, "^(TestUsersOfImages|TestNoAttackOfRootEscapes)$", map[string]string{"/etc/subuid": ids, "/etc/subgid": ids, "/dev/net/tun": tun})
}

// systemMounts are the folders of this machine with programs, for images without programs.
func systemMounts() (mounts []runtime.Mount) {
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, runtime.Mount{Name: dir, HostPath: dir, ContainerPath: dir, ReadOnly: true})
		}
	}
	return mounts
}

// newImage returns the folder of an image without programs.
func newImage(t testing.TB) string {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"usr", "bin", "lib", "etc", "own"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	return dir
}

// TestNoAttackOfRootEscapes attacks from a container whose root has all users.
func TestNoAttackOfRootEscapes(t *testing.T) {
	if os.Getenv(nobodyEnv) == "" {
		t.Skip("for TestSubordinateIDs")
	}
	opts := process.Options{Confine: true, Images: oneImage{Dir: newImage(t)}}
	confined := results(t, opts, "", true)
	unfiltered := results(t, opts, v1.SeccompProfileTypeUnconfined, true)
	for _, a := range attacks {
		t.Logf("%-32s %-17s without filter: %s; confined: %s", a.name, a.layerInNamespaces(), unfiltered[a.name], confined[a.name])
		assert.Contains(t, confined[a.name], "held by", "%s, confined", a.name)
		if a.layerInNamespaces() != byFilter {
			assert.Contains(t, unfiltered[a.name], "held by", "%s, without a filter", a.name)
		}
	}
}

// TestUsersOfImages runs containers of an image whose program changes its user. Only a user with subordinate IDs has
// such containers.
func TestUsersOfImages(t *testing.T) {
	if os.Getenv(nobodyEnv) == "" {
		t.Skip("for TestSubordinateIDs")
	}
	t.Run("host network", func(t *testing.T) { testUsersOfImages(t, newIsolated(t), process.Options{Confine: true}) })
	t.Run("networks", func(t *testing.T) {
		n := newNetworked(t)
		testUsersOfImages(t, n.env, n.opts)
	})
}

func testUsersOfImages(t *testing.T, e *env, opts process.Options) {
	kept := filepath.Join(os.Getenv("HOME"), filepath.Base(e.root)+e.Name()) // root removes HOME
	// The last command makes a part of a volume, which is mounted itself, a link to a folder of the host.
	script := `umask 022
		echo root $(id -u):$(id -g) $(id -G) $(stat -c %u:%g:%a /own /own/file)
		mkdir /data/more && head -c 1048576 /dev/urandom > /data/more/file
		touch /file && mkdir -m 700 /deep /data/deep /kept/deep && touch /deep/file /data/deep/file /kept/deep/file &&
		chown -R 101:102 /deep /data/deep /kept/deep && chown 103 /data && chmod 555 /deep && chown 60000:60000 /file && echo changed
		setpriv --reuid 101 --regid 102 --clear-groups sh -c 'echo user $(id -u):$(id -G); echo mine > /data/deep/own; rm -r /data/deep/file /own/file && echo removed; mount -t tmpfs x /mnt 2>/dev/null || echo kept'
		rmdir /data/part && ln -s ` + kept + ` /data/part
		echo ready; sleep 1000`
	image := process.RootFS{Dir: newImage(t), Owners: []process.Owner{{Path: "own", UID: 101, GID: 102}, {Path: "own/file", UID: 101}, {Path: "etc", UID: 100000}}}
	require.NoError(t, os.WriteFile(filepath.Join(image.Dir, "own/file"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(image.Dir, "own"), 0o700))
	opts.Images = oneImage(image)
	e.rt = e.open(opts)
	pod := e.pod(script)
	pod.Spec.Volumes = []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "kept", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}},
	}
	data := t.TempDir()
	part := filepath.Join(data, "part")
	require.NoError(t, errors.Join(os.MkdirAll(kept, 0o755), os.Mkdir(part, 0o755)))
	mounts := []runtime.Mount{{Name: "data", HostPath: data, ContainerPath: "/data"}, {Name: "kept", HostPath: kept, ContainerPath: "/kept"}, {Name: "data", HostPath: part, ContainerPath: "/part"}}
	mounts = append(mounts, systemMounts()...)
	pod.Spec.Containers[0].Image = "app"
	require.NoError(t, e.rt.CheckPod(pod))
	sandbox := e.sandbox(pod)
	start := func(restart int32) runtime.ContainerID {
		spec := e.spec(pod, restart)
		spec.Mounts = mounts
		id, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
		require.NoError(t, err)
		require.NoError(t, e.rt.StartContainer(t.Context(), id))
		return id
	}
	id := start(0)
	e.awaitLog(pod, "ready")
	assert.Equal(t, "root 0:0 0 101:102:700 101:0:600\nchanged\nuser 101:102\nremoved\nkept\nready\n", e.log(pod, 0))
	owner := func(path string) [2]uint32 {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(path, &st))
		return [2]uint32{st.Uid, st.Gid}
	}
	own := [2]uint32{uint32(os.Getuid()), uint32(os.Getgid())}
	assert.Equal(t, [2]uint32{firstID + 100, firstID + 101}, owner(filepath.Join(data, "deep")))
	assert.Equal(t, [2]uint32{firstID + 102, own[1]}, owner(data))
	assert.FileExists(t, filepath.Join(image.Dir, "own/file"))

	out, errOut, code, err := e.rt.Exec(t.Context(), id, shell("cat /deep/file && id -u && id -G && echo more >> /data/deep/own && setpriv --reuid 102 --clear-groups id -u"))
	require.NoError(t, err)
	assert.Zero(t, code, "%s", errOut)
	assert.Equal(t, "0\n0\n102\n", string(out))

	_, err = diskuse.Of(t.Context(), data)
	require.ErrorIs(t, err, fs.ErrPermission)
	used, err := e.rt.DiskUsage(t.Context(), data)
	require.NoError(t, err)
	assert.Equal(t, uint64(6), used.InodesUsed)
	assert.GreaterOrEqual(t, used.UsedBytes, uint64(1<<20))
	of, err := e.rt.ContainerStats(t.Context(), id)
	require.NoError(t, err)
	assert.Positive(t, of.WritableLayer.InodesUsed)
	_, err = e.rt.DiskUsage(t.Context(), "/missing")
	require.ErrorContains(t, err, "no such file")

	// A container with a user has this user alone. Every file of the image belongs to the user.
	user := int64(101)
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &user}
	pod.Spec.Containers[0].Command = shell("echo $(id -u) $(stat -c %u /own /own/file); (touch /data/deep/file || chown 102 /own) 2>/dev/null || echo ready; sleep 1000")
	mounts = slices.DeleteFunc(mounts, func(m runtime.Mount) bool { return m.HostPath == part })
	single := start(1)
	require.Eventually(t, func() bool { return strings.HasSuffix(e.log(pod, 1), "ready\n") }, time.Minute, 10*time.Millisecond)
	assert.Contains(t, e.log(pod, 1), "101 101 101\n")

	for _, id := range []runtime.ContainerID{id, single} {
		require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
		require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
		assert.NoDirExists(t, e.folder(id))
	}
	assert.Equal(t, [2]uint32{firstID + 102, own[1]}, owner(data), "the pod may have other containers")
	process.ForgetUsers(e.rt) // the sandbox knows its own
	e.removeAll()
	assert.Equal(t, own, owner(data))
	require.NoError(t, os.RemoveAll(filepath.Join(data, "deep")))
	assert.Equal(t, [2]uint32{firstID + 100, firstID + 101}, owner(filepath.Join(kept, "deep")), "a volume that outlives the pod")
}

// BenchmarkUsers starts and removes a container of an image with a single user, and one with all users, for which this
// process's user needs subordinate IDs. After the start, the container's command has run.
func BenchmarkUsers(b *testing.B) {
	e := newIsolated(b)
	e.rt = e.open(process.Options{Confine: true, Images: oneImage{Dir: newImage(b)}})
	if !process.HasUsers(e.rt) {
		b.Skip("no subordinate IDs")
	}
	for name, user := range map[string]int64{"single": 7, "all": 0} {
		b.Run(name, func(b *testing.B) {
			pod := e.pod("echo done; exec sleep 1000")
			pod.Spec.Containers[0].Image = "app"
			pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &user}
			sandbox := e.sandbox(pod)
			for b.Loop() {
				spec := e.spec(pod, 0)
				spec.Mounts = systemMounts()
				id, err := e.rt.CreateContainer(b.Context(), sandbox, spec)
				require.NoError(b, err)
				require.NoError(b, e.rt.StartContainer(b.Context(), id))
				require.NoError(b, e.rt.RemoveContainer(b.Context(), id))
			}
			require.NoError(b, e.rt.RemoveSandbox(b.Context(), sandbox))
		})
	}
}
