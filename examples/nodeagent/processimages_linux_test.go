// SPDX-License-Identifier: Apache-2.0

//go:build !noimages && !noimagearchives && !nokinds && !nolocalapi

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/process"
)

// imageNode is a node without a container engine, whose agent is not root.
type imageNode struct {
	*station
	archives string
	program  oci.Layer // of all images
}

// newImageNode returns a node in a process of a user without rights. If the test is root, it runs
// again as that user, in a network of its own in which every port is free, and newImageNode returns
// nil in the first process. There, mounts are mounted over files: a file, the other file, and so on.
func newImageNode(t *testing.T, mounts ...string) *imageNode {
	t.Helper()
	const env = "KEELSON_TEST_IMAGES"
	dir := os.Getenv(env)
	switch {
	case dir == "" && os.Getuid() == 0:
		asNobody(t, env, mounts)
		return nil
	case dir == "":
		dir = t.TempDir()
		buildServed(t, dir)
	}
	program, err := os.ReadFile(filepath.Join(dir, "served"))
	require.NoError(t, err)
	n := &imageNode{newStation(t, backends["process"]), t.TempDir(), nil}
	n.program = n.layer(map[string]string{"bin/served": string(program)}, nil)
	if _, err := process.New(process.Options{Root: dir, Confine: true, Images: noImages{}}); err != nil {
		t.Skip(err)
	}
	return n
}

type noImages struct{ process.Images }

// buildServed builds the static program of testdata/served as dir/served.
func buildServed(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "served"), "./testdata/served")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}

// asNobody runs the test again as user 65534 in a network namespace whose loopback is up, with mounts.
func asNobody(t *testing.T, env string, mounts []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nobody") // t.TempDir is below a folder of root
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	buildServed(t, dir)
	program, err := os.Executable()
	require.NoError(t, err)
	raw, err := os.ReadFile(program)
	require.NoError(t, err)
	program = filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(program, raw, 0o755))
	const user = 65534
	require.NoError(t, errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, user, user)))
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), env+"="+dir, "HOME="+dir, "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	var out []byte
	done := make(chan error)
	go func() { // its thread, with the other network, ends with the goroutine
		goruntime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		for i := 0; err == nil && i < len(mounts); i += 2 {
			err = unix.Mount(mounts[i+1], mounts[i], "", unix.MS_BIND, "")
		}
		if err == nil {
			err = errors.Join(loopbackUp(), os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0))
		}
		if err == nil {
			out, err = c.CombinedOutput()
		}
		done <- err
	}()
	err = <-done
	if strings.Contains(string(out), "--- SKIP") || errors.Is(err, unix.EPERM) {
		t.Skip(string(out), err)
	}
	require.NoError(t, err, string(out))
	t.Logf("as user %d:\n%s", user, out)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// layer makes a layer with files by path, and with links in /bin to the test's program.
func (n *imageNode) layer(files map[string]string, links []string) oci.Layer {
	n.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(h tar.Header, content string) {
		h.Mode, h.Size = 0o755, int64(len(content))
		require.NoError(n, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		require.NoError(n, err)
	}
	for path, content := range files {
		add(tar.Header{Name: path, Typeflag: tar.TypeReg}, content)
	}
	for _, link := range links {
		add(tar.Header{Name: "bin/" + link, Typeflag: tar.TypeSymlink, Linkname: "served"}, "")
	}
	require.NoError(n, w.Close())
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l, err := tarball.LayerFromOpener(opener, tarball.WithCompressedCaching)
	require.NoError(n, err)
	return l
}

// image makes an image with the test's program under the name served and the given names, and with
// files by path.
func (n *imageNode) image(config oci.Config, names []string, files map[string]string) oci.Image {
	n.Helper()
	img, err := mutate.AppendLayers(empty.Image, n.program, n.layer(files, names))
	require.NoError(n, err)
	file, err := img.ConfigFile()
	require.NoError(n, err)
	file.OS, file.Architecture, file.Config = "linux", goruntime.GOARCH, config
	file.Config.Env = append(file.Config.Env, "PATH=/bin")
	img, err = mutate.ConfigFile(img, file)
	require.NoError(n, err)
	return img
}

// save writes an image to the folder of archives, as "docker save" does.
func (n *imageNode) save(ref string, img oci.Image) {
	n.Helper()
	tag, err := name.NewTag(ref)
	require.NoError(n, err)
	file := filepath.Join(n.archives, strings.NewReplacer("/", "-", ":", "-").Replace(ref))
	require.NoError(n, tarball.WriteToFile(file+".part", tag, img))
	require.NoError(n, os.Rename(file+".part", file+".tar"))
}

// text returns the log of a pod's first container, without time stamps.
func (n *imageNode) text(pod string) string {
	n.Helper()
	logs, _ := filepath.Glob(filepath.Join(n.root, "logs", "default_"+pod+"_*", "*", "*.log"))
	var text strings.Builder
	for _, log := range logs {
		raw, _ := os.ReadFile(log)
		for l := range strings.Lines(string(raw)) {
			if parts := strings.SplitN(l, " ", 4); len(parts) == 4 {
				text.WriteString(parts[3])
			}
		}
	}
	return text.String()
}

// An agent that is not root runs images of archives and of a registry without a container engine,
// with policies, credentials, statuses, events, image volumes and collection of unused images.
func TestImagesWithoutAnEngine(t *testing.T) {
	n := newImageNode(t)
	if n == nil {
		return
	}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "edge" || password != "s3cret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	defer server.Close()
	private := strings.TrimPrefix(server.URL, "http://") + "/private:1"
	ref, err := name.ParseReference(private)
	require.NoError(t, err)
	img := n.image(oci.Config{Cmd: []string{"served", "private"}}, nil, nil)
	require.NoError(t, remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "edge", Password: "s3cret"})))
	n.save("registry.example/app:1", n.image(oci.Config{
		Entrypoint: []string{"served"}, Cmd: []string{"by", "default"}, User: "1000:1000", WorkingDir: "/srv", Env: []string{"FROM=image", "TELL=FROM HOME"},
	}, nil, map[string]string{"etc/passwd": "app:x:1000:1000::/home/app:/\n"}))
	n.save("registry.example/tools:1", n.image(oci.Config{}, nil, map[string]string{"share/words": "hello"}))

	objects := filepath.Join(n.dir, "objects")
	require.NoError(t, os.Mkdir(objects, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(objects, "pull.yaml"), []byte(`{apiVersion: v1, kind: Secret, metadata: {name: pull}, type: kubernetes.io/dockerconfigjson, `+
		`stringData: {.dockerconfigjson: '{"auths": {"`+strings.Split(private, "/")[0]+`": {"username": "edge", "password": "s3cret"}}}'}}`), 0o600))
	pod := func(name, image, spec, container string) {
		n.write(name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+"}\nspec:\n  terminationGracePeriodSeconds: 2\n"+spec+
			"  containers:\n  - name: main\n    image: "+image+"\n"+container)
	}
	pod("plain", "registry.example/app:1", "", "")
	pod("own", "registry.example/app:1", "  volumes: [{name: tools, image: {reference: 'registry.example/tools:1'}}]\n",
		"    args: [of, the, pod]\n    workingDir: /\n    securityContext: {runAsUser: 7, readOnlyRootFilesystem: true}\n"+
			"    env: [{name: FROM, value: pod}, {name: READ, value: /tools/words}, {name: WRITE, value: '/tools /'}]\n"+
			"    volumeMounts: [{name: tools, mountPath: /tools, subPath: share}]\n")
	pod("private", private, "  imagePullSecrets: [{name: pull}]\n", "")
	pod("refused", private, "", "")
	pod("never", "registry.example/never:1", "", "    imagePullPolicy: Never\n")
	flags := []string{"--images", "--image-archives", n.archives, "--objects-path", objects, "--image-gc-period=200ms",
		keepImages, "--minimum-image-ttl-duration=0s", "--maximum-image-ttl-duration=500ms"}
	n.start(flags...)

	plain := n.waitPhase("plain-n", v1.PodRunning)
	n.eventually("its log is complete", func() bool { return strings.HasSuffix(n.text("plain-n"), "waits\n") })
	assert.Equal(t, "args [served by default]\nids 1000 1000\ndir /srv\nFROM image\nHOME /home/app\nwaits\n", n.text("plain-n"))
	status := plain.Status.ContainerStatuses[0]
	assert.Equal(t, "registry.example/app:1", status.Image)
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", status.ImageID)
	n.waitPhase("own-n", v1.PodRunning)
	n.eventually("its log is complete", func() bool { return strings.HasSuffix(n.text("own-n"), "waits\n") })
	assert.Equal(t, "args [served of the pod]\nids 7 1000\ndir /\nFROM pod\nHOME /home/app\nread /tools/words \"hello\" <nil>\n"+
		"write /tools open /tools/written: read-only file system\nwrite / open /written: read-only file system\nwaits\n", n.text("own-n"))
	n.waitPhase("private-n", v1.PodRunning)
	n.eventually("the others wait with the reason", func() bool {
		why := func(name string) string {
			if w := mainOf(n.pods()[name]).State.Waiting; w != nil {
				return w.Reason
			}
			return ""
		}
		return strings.Contains("ErrImagePull ImagePullBackOff", why("refused-n")) && why("refused-n") != "" && why("never-n") == "ErrImageNeverPull"
	})
	events, code := n.verb("events")
	require.Zero(t, code, events)
	for _, want := range []string{`Pulling image "registry.example/app:1"`, `Successfully pulled image "registry.example/app:1"`, `Failed to pull image "` + private} {
		assert.Contains(t, events, want)
	}
	assert.NotContains(t, events, "s3cret")

	t.Log("another agent takes the pods over, and removes the image without a container")
	n.remove("refused.yaml")
	n.eventually("the refused pod is gone", func() bool { _, there := n.pods()["refused-n"]; return !there })
	n.kill()
	n.start(flags...)
	n.remove("private.yaml")
	n.eventually("unused images are removed", func() bool {
		images, err := filepath.Glob(filepath.Join(n.root, "imagestore/images/*"))
		return err == nil && len(images) == 2
	})
	n.eventually("their records of pulls, too", func() bool {
		records, err := filepath.Glob(filepath.Join(n.root, "pulls/pulled/*"))
		return err == nil && len(records) == 2
	})
	assert.Equal(t, status.ContainerID, mainOf(n.waitPhase("plain-n", v1.PodRunning)).ContainerID)
	n.interrupt()
	assert.Contains(t, n.text("plain-n"), "waits\nstopped\n", "SIGTERM reaches process 1")
	assert.Empty(t, n.processes())
}

// An agent that is killed during the download of a layer leaves a part, which the next agent continues
// with a range request. Then nothing is left behind.
func TestKilledDuringAPull(t *testing.T) {
	n := newImageNode(t)
	if n == nil {
		return
	}
	img := n.image(oci.Config{Entrypoint: []string{"served"}}, nil, nil)
	digest, err := n.program.Digest()
	require.NoError(t, err)
	in, err := n.program.Compressed()
	require.NoError(t, err)
	blob, err := io.ReadAll(in)
	require.NoError(t, err)
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	held, ranges := make(chan struct{}, 10), make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, digest.String()) {
			store.ServeHTTP(w, r)
			return
		}
		ranges <- r.Header.Get("Range")
		if r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = w.Write(blob[:len(blob)/2])
		w.(http.Flusher).Flush()
		held <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/app:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))
	n.write("app.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  terminationGracePeriodSeconds: 2\n  containers: [{name: main, image: '"+ref.Name()+"'}]\n")
	n.start("--images")
	<-held
	part := filepath.Join(n.root, "imagestore/parts", digest.Hex+".part")
	n.eventually("the part has the half", func() bool { info, err := os.Stat(part); return err == nil && info.Size() == int64(len(blob)/2) })
	n.kill()
	n.start("--images")
	n.waitPhase("app-n", v1.PodRunning)
	assert.Empty(t, <-ranges)
	assert.Equal(t, fmt.Sprintf("bytes=%d-", len(blob)/2), <-ranges)
	assert.Empty(t, ranges)
	events, _ := n.verb("events")
	assert.Regexp(t, `Successfully pulled image ".*" in .*\. Image size: [0-9]+ bytes\.`, events)
	left, err := filepath.Glob(filepath.Join(n.root, "imagestore/*/.draft-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.NoFileExists(t, part)
	n.interrupt()
}

// A pod of a user and group of its own, with the same fsGroup, reads and writes its volumes as this group.
// The agent's user is another one, and belongs to no such group.
func TestFSGroupWithoutRoot(t *testing.T) {
	n := newImageNode(t)
	if n == nil {
		return
	}
	n.save("example.test/app:1", n.image(oci.Config{Entrypoint: []string{"served"}, Env: []string{"GROUP=/data /claim /words", "WRITE=/data /claim"}}, nil, nil))
	n.write("app.yaml", `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 2000, fsGroup: 2000}
  containers:
  - name: c
    image: example.test/app:1
    volumeMounts: [{name: claim, mountPath: /claim}, {name: data, mountPath: /data}, {name: words, mountPath: /words}]
  volumes:
  - {name: claim, persistentVolumeClaim: {claimName: data}}
  - {name: data, emptyDir: {}}
  - {name: words, configMap: {name: words}}
`)
	n.start("--images", "--image-archives", n.archives, keepImages)
	n.waitPhase("app-n", v1.PodRunning)
	n.eventually("the container listens", func() bool { return strings.HasSuffix(n.text("app-n"), "waits\n") })
	for _, line := range []string{"ids 1000 2000", "write /data <nil>", "write /claim <nil>", "group /data 2000 true", "group /claim 2000 true", "group /words 2000 false"} {
		assert.Contains(t, "\n"+n.text("app-n"), "\n"+line+"\n")
	}
	n.interrupt()
}

// popular are images of popular programs: the configuration of the real images, and a program of this
// test that listens where the real program does. They prove that the manifests are honoured, not
// that the real programs run.
var popular = map[string]struct {
	config  oci.Config
	names   []string
	logs    []string // lines that the container prints
	lenient bool     // the manifest has fields that this backend cannot honour
}{
	"coredns-alone registry.k8s.io/coredns/coredns:v1.12.0 coredns-0-n": {
		config: oci.Config{Entrypoint: []string{"/bin/coredns"}, User: "65532:65532", Env: []string{"LISTEN=53 8080", "READ=/etc/coredns/Corefile"}}, names: []string{"coredns"},
		logs: []string{"ids 65532 65532", "args [/bin/coredns -conf /etc/coredns/Corefile]", `read /etc/coredns/Corefile ".:53 {\n  forward . /etc/resolv.conf\n  cache 30\n}\n" <nil>`, "listen 53 <nil>"}},
	"influxdb docker.io/library/influxdb:2.7 influxdb-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"influxd"}, Env: []string{"LISTEN=8086", "WRITE=/var/lib/influxdb2"}},
		logs:   []string{"args [served influxd]", "write /var/lib/influxdb2 <nil>", "listen 8086 <nil>"}},
	"mosquitto docker.io/library/eclipse-mosquitto:2 mosquitto-0-n": {
		config: oci.Config{Entrypoint: []string{"/bin/served"}, Cmd: []string{"/usr/sbin/mosquitto", "-c", "/mosquitto/config/mosquitto.conf"}, Env: []string{"LISTEN=1883", "READ=/mosquitto/config/mosquitto.conf"}},
		logs:   []string{`read /mosquitto/config/mosquitto.conf "listener 1883\nallow_anonymous true\n" <nil>`, "listen 1883 <nil>"}},
	"mysql docker.io/library/mysql:8.4 mysql-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"mysqld"}, Env: []string{"LISTEN=3306 33060", "WRITE=/var/lib/mysql", "TELL=MYSQL_ROOT_PASSWORD"}},
		logs:   []string{"MYSQL_ROOT_PASSWORD change-me", "write /var/lib/mysql <nil>", "listen 3306 <nil>"}},
	"node-exporter quay.io/prometheus/node-exporter:v1.8.2 node-exporter-n": {
		config: oci.Config{Entrypoint: []string{"/bin/node_exporter"}, User: "nobody", Env: []string{"LISTEN=9100", "READ=/host/proc/1/comm", "WRITE=/host/tmp"}}, names: []string{"node_exporter"},
		logs: []string{"ids 65534 65534", "args [/bin/node_exporter --path.rootfs=/host]", "write /host/tmp open /host/tmp/written: read-only file system", "listen 9100 <nil>"}},
	"postgres docker.io/library/postgres:17 postgres-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"postgres"}, Env: []string{"LISTEN=5432", "WRITE=/var/lib/postgresql/data", "TELL=POSTGRES_PASSWORD PGDATA"}}, names: []string{"pg_isready"},
		logs: []string{"POSTGRES_PASSWORD change-me", "PGDATA /var/lib/postgresql/data/pgdata", "write /var/lib/postgresql/data <nil>"}},
	"prometheus quay.io/prometheus/prometheus:v3.1.0 prometheus-0-n": {
		config: oci.Config{Entrypoint: []string{"/bin/prometheus"}, User: "nobody", WorkingDir: "/prometheus", Env: []string{"LISTEN=9090", "READ=/etc/prometheus/prometheus.yml", "WRITE=/prometheus"}}, names: []string{"prometheus"},
		logs: []string{"ids 65534 65534", "dir /prometheus", `read /etc/prometheus/prometheus.yml "scrape_configs: []\n" <nil>`, "write /prometheus <nil>"}},
	"redis docker.io/library/redis:7 redis-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"redis-server"}, WorkingDir: "/data", Env: []string{"LISTEN=6379", "WRITE=/data"}},
		logs:   []string{"args [served --appendonly yes]", "dir /data", "write /data <nil>", "listen 6379 <nil>"}},
	"registry docker.io/library/registry:2 registry-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"/etc/docker/registry/config.yml"}, Env: []string{"LISTEN=5000", "WRITE=/var/lib/registry"}},
		logs:   []string{"args [served /etc/docker/registry/config.yml]", "write /var/lib/registry <nil>"}},
	"traefik-file docker.io/library/traefik:v3.2 traefik-0-n": {
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"traefik"}, Env: []string{"LISTEN=80", "READ=/etc/traefik/dynamic/dynamic.yaml"}},
		logs:   []string{`read /etc/traefik/dynamic/dynamic.yaml "http: {}\n" <nil>`, "listen 80 <nil>"}},
	"nginx docker.io/library/nginx:1.27 nginx-0-n": {lenient: true, // a limit of memory, and a hostPort that is not the containerPort
		config: oci.Config{Entrypoint: []string{"served"}, Cmd: []string{"nginx", "-g", "daemon off;"}, StopSignal: "SIGTERM", Env: []string{"LISTEN=80", "READ=/etc/nginx/conf.d/default.conf"}},
		logs:   []string{"args [served nginx -g daemon off;]", `read /etc/nginx/conf.d/default.conf "server { listen 80; }\n" <nil>`}},
	"grafana docker.io/grafana/grafana:11.4.0 grafana-0-n": {lenient: true, // groups that this user does not have
		config: oci.Config{Entrypoint: []string{"served"}, User: "472:0", Env: []string{"LISTEN=3000", "WRITE=/var/lib/grafana"}},
		logs:   []string{"ids 472 0", "write /var/lib/grafana <nil>", "listen 3000 <nil>"}},
	"home-assistant ghcr.io/home-assistant/home-assistant:2025.1 home-assistant-0-n": {lenient: true, // privileged
		config: oci.Config{Entrypoint: []string{"served"}, Env: []string{"LISTEN=8123", "WRITE=/config"}},
		logs:   []string{"write /config <nil>", "listen 8123 <nil>"}},
}

// Manifests of popular programs, the corpus of package podspec, run without root and without a
// container engine: ten as they are, on a node with the class fast-ssd, and three more with --lenient.
func TestPopularManifestsWithoutAnEngine(t *testing.T) {
	n := newImageNode(t)
	if n == nil {
		return
	}
	images := filepath.Join(n.dir, "registry")
	for key, p := range popular {
		n.save(strings.Fields(key)[1], n.image(p.config, p.names, map[string]string{"etc/passwd": "nobody:x:65534:65534::/:/\n"}))
	}
	unchanged := 0
	for _, lenient := range []bool{false, true} {
		flags := []string{"--images", "--image-archives", n.archives, keepImages, "--storage-class", "fast-ssd"}
		if lenient {
			flags = append(flags, "--lenient")
		}
		for key, p := range popular {
			file := strings.Fields(key)[0] + ".yaml"
			raw, err := os.ReadFile(filepath.Join("podspec/testdata/corpus", "popular-"+file))
			require.NoError(t, err)
			// A user without rights cannot make /var/lib/registry.
			text := strings.Replace(string(raw), "hostPath: {path: /var/lib/registry", "hostPath: {path: "+images, 1)
			if p.lenient == lenient {
				n.write(file, strings.Replace(text, "readinessProbe: {", "readinessProbe: {periodSeconds: 1, ", 1)) // the first probe may be too early
			} else if lenient {
				n.remove(file)
			}
		}
		n.start(flags...)
		for key, p := range popular {
			if p.lenient != lenient {
				continue
			}
			pod := strings.Fields(key)[2]
			status := n.waitPhase(pod, v1.PodRunning).Status.ContainerStatuses[0]
			assert.Equal(t, strings.Fields(key)[1], status.Image)
			n.eventually(pod+" listens", func() bool { return strings.HasSuffix(n.text(pod), "waits\n") })
			for _, line := range p.logs {
				assert.Contains(t, "\n"+n.text(pod), "\n"+line+"\n", pod)
			}
			assert.Zero(t, status.RestartCount, pod)
			if !lenient {
				unchanged++
			}
		}
		n.interrupt()
		assert.Empty(t, n.processes())
	}
	assert.GreaterOrEqual(t, unchanged, 10)
}
