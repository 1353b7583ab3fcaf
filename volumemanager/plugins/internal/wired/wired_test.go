// SPDX-License-Identifier: Apache-2.0

// Package wired_test is a manager with real plugins: what holds only for both together.
package wired_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// node is a running manager with the plugins that need no cluster. It has no resync, so that only
// events cause operations.
type node struct {
	manager *volumemanager.Manager
	store   *objects.Store
	pods    *volumetest.Pods
	plugins []volumemanager.Plugin
	root    string
	stop    func() // idempotent
}

func newNode(tb testing.TB, root string) *node {
	tb.Helper()
	n := &node{pods: &volumetest.Pods{}, root: root}
	var err error
	n.store, err = objects.NewStore(objects.Options{Changed: func(r objects.Ref) { n.manager.Refresh(r.UsedBy) }})
	require.NoError(tb, err)
	scratch, err := emptydir.New(emptydir.Options{})
	require.NoError(tb, err)
	config, err := configmap.New(configmap.Options{Source: n.store})
	require.NoError(tb, err)
	pass, err := secret.New(secret.Options{Source: n.store})
	require.NoError(tb, err)
	both, err := projected.New(projected.Options{ConfigMaps: n.store, Secrets: n.store})
	require.NoError(tb, err)
	subpaths, err := subpath.New(subpath.Options{})
	require.NoError(tb, err)
	n.plugins = []volumemanager.Plugin{scratch, config, pass, both}
	n.manager, err = volumemanager.New(volumemanager.Options{
		Pods: n.pods, Root: root, Plugins: n.plugins, Subpaths: subpaths,
		Mounts: volumemanager.MountTableFunc(mount.Points),
	})
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.manager.Run(ctx) })
	n.stop = func() {
		cancel()
		wg.Wait()
	}
	tb.Cleanup(n.stop)
	n.set("first")
	return n
}

// set sets the key of the objects to text.
func (n *node) set(text string) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "o"}
	n.store.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": text}})
	n.store.SetSecret(&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": text}})
}

var (
	emptyDirs = []v1.VolumeSource{{EmptyDir: &v1.EmptyDirVolumeSource{}}, {EmptyDir: &v1.EmptyDirVolumeSource{}}}
	configMap = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "o"}}}
	aSecret   = v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "o"}}
	aMixture  = v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "o"}}},
	}}}
)

// pod returns a pod with a volume v0, v1… for each source, mounted by its container.
func pod(uid types.UID, sources ...v1.VolumeSource) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
	c := v1.Container{Name: "main"}
	for i, s := range sources {
		name := fmt.Sprint("v", i)
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: s})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func (n *node) up(tb testing.TB, p *v1.Pod) {
	tb.Helper()
	require.NoError(tb, n.manager.WaitForAttachAndMount(tb.Context(), p))
}

func (n *node) down(tb testing.TB, uid types.UID) {
	tb.Helper()
	n.pods.Set(uid, volumetest.Gone)
	require.NoError(tb, n.manager.WaitForUnmount(tb.Context(), uid))
}

func (n *node) read(p *v1.Pod, volume string) string {
	m := n.manager.GetMountedVolumesForPod(p.UID)[volume]
	data, err := os.ReadFile(filepath.Join(m.Path, "key"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestUpstream30189ChangeShowsByEvent: a changed object reaches the volume without a timer or
// resync.
func TestUpstream30189ChangeShowsByEvent(t *testing.T) {
	n := newNode(t, mounttest.Dir(t))
	p := pod("uid", configMap, aSecret, aMixture)
	n.up(t, p)
	for _, text := range []string{"first", "second", "third"} {
		n.set(text)
		for _, volume := range []string{"v0", "v1", "v2"} {
			assert.Eventually(t, func() bool { return n.read(p, volume) == text }, time.Minute, 5*time.Millisecond, "%s of %s", text, volume)
		}
	}
	n.down(t, p.UID)
	assert.Empty(t, mounttest.Below(t, n.root))
}

// TestMissingObjectIsWaitedFor: a missing object blocks its own pod only. The pod starts once the
// object exists.
func TestMissingObjectIsWaitedFor(t *testing.T) {
	n := newNode(t, mounttest.Dir(t))
	n.store.Delete(objects.Ref{Kind: objects.Secret, Namespace: "ns", Name: "o"})
	waits, goes := pod("waits", aSecret), pod("goes", configMap)
	done := make(chan error, 1)
	go func() { done <- n.manager.WaitForAttachAndMount(t.Context(), waits) }()
	n.up(t, goes)
	assert.Equal(t, "first", n.read(goes, "v0"))
	n.set("there")
	require.NoError(t, <-done)
	assert.Equal(t, "there", n.read(waits, "v0"))
	n.down(t, "waits")
	n.down(t, "goes")
}

// TestFewestFiles: the time of a burst is the disk's time for new files and folders, so no
// unnecessary file is created.
func TestFewestFiles(t *testing.T) {
	above := []string{".", "volumes", "volumes/kubernetes.io~"}
	version := []string{"", "/..V", "/..V/key", "/..data", "/key"}
	for _, k := range []struct {
		plugin string
		source v1.VolumeSource
		want   []string // names in the folder of each volume
	}{{"empty-dir", emptyDirs[0], version[:1]}, {"configmap", configMap, version}, {"projected", aMixture, version}} {
		t.Run(k.plugin, func(t *testing.T) {
			n := newNode(t, mounttest.Dir(t))
			p := pod("uid", k.source, k.source)
			n.up(t, p)
			want := []string{above[0], above[1], above[2] + k.plugin}
			for _, volume := range []string{"v0", "v1"} {
				want = append(want, "kubernetes.io~"+k.plugin+"~"+volume+".mount.json")
				for _, name := range k.want {
					want = append(want, above[2]+k.plugin+"/"+volume+name)
				}
			}
			assert.ElementsMatch(t, want, files(t, filepath.Join(n.root, "pods", "uid")))
			n.down(t, p.UID)
		})
	}
}

// files returns the paths of all files below top; names of versions are replaced by "..V".
func files(t *testing.T, top string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, name)
		all = append(all, regexp.MustCompile(`\.\.[0-9_]+\.[0-9]+`).ReplaceAllString(rel, "..V"))
		return err
	}))
	return all
}
