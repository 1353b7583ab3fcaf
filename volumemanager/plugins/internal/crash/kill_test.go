// SPDX-License-Identifier: Apache-2.0

// Package crash_test kills agents while their plugins work.
package crash_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

const (
	rootEnv     = "KEELSON_CRASH_ROOT"
	preciousEnv = "KEELSON_CRASH_PRECIOUS"
	kills       = 60
)

func TestMain(m *testing.M) {
	if root := os.Getenv(rootEnv); root != "" {
		agent(root, os.Getenv(preciousEnv))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// node has all plugins over the same root, and a pod with a volume of each.
type node struct {
	root  string
	store *objects.Store
	work  []volumemanager.Plugin
	specs []volumemanager.Spec
}

func newNode(root, precious string) (*node, error) {
	n := &node{root: root}
	var err error
	if n.store, err = objects.NewStore(objects.Options{}); err != nil {
		return nil, err
	}
	add := func(p volumemanager.Plugin, err2 error, spec volumemanager.Spec) {
		n.work, n.specs = append(n.work, p), append(n.specs, spec)
		if err == nil {
			err = err2
		}
	}
	volume := func(name string, s v1.VolumeSource) volumemanager.Spec {
		return volumemanager.Spec{Volume: &v1.Volume{Name: name, VolumeSource: s}}
	}
	config, err2 := configmap.New(configmap.Options{Source: n.store})
	add(config, err2, volume("config", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "o"}}}))
	pass, err2 := secret.New(secret.Options{Source: n.store})
	add(pass, err2, volume("pass", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "o"}}))
	both, err2 := projected.New(projected.Options{ConfigMaps: n.store})
	add(both, err2, volume("both", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "o"}}},
	}}}))
	scratch, err2 := emptydir.New(emptydir.Options{})
	add(scratch, err2, volume("scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	add(scratch, err2, volume("memory", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
	host, err2 := hostpath.New(hostpath.Options{})
	add(host, err2, volume("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: precious}}))
	disk, err2 := local.New(local.Options{})
	add(disk, err2, volumemanager.Spec{PV: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: precious}},
	}}})
	return n, err
}

func (n *node) mount(i int) volumemanager.Mount {
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: n.root, PodUID: "uid", Plugin: n.work[i].Name(), Inner: n.specs[i].InnerName()},
		Spec:  n.specs[i], Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}},
	}
}

// set sets all keys of the objects to a number.
func (n *node) set(number int) {
	text := strings.Repeat(fmt.Sprintf("%06d ", number), 200)
	data := map[string]string{"a": text, "b": text, "c": text}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "o"}
	n.store.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: data})
	n.store.SetSecret(&v1.Secret{ObjectMeta: meta, StringData: data})
}

// agent sets up all volumes, renews them, and tears them down, until it is killed. It prints a fact
// on stdout only after the fact is true.
func agent(root, precious string) {
	n, err := newNode(root, precious)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ctx := context.Background()
	for number := 0; ; number++ {
		n.set(number)
		for i, p := range n.work {
			m := n.mount(i)
			m.Reconstructed = number == 0
			m.Remount = number%8 != 0
			if _, err := p.SetUp(ctx, m); err != nil {
				fmt.Fprintln(os.Stderr, "set up", i, err)
				return
			}
			fmt.Println("up", i)
		}
		if number%8 != 7 {
			continue
		}
		for i, p := range n.work {
			fmt.Println("down", i)
			m := n.mount(i)
			if err := p.TearDown(ctx, volumemanager.Unmount{Place: m.Place, Spec: m.Spec}); err != nil {
				fmt.Fprintln(os.Stderr, "tear down", i, err)
				return
			}
		}
	}
}

// TestKilledAgents kills agents at random moments; each agent continues from the state of the
// previous agent. Volumes that were ready are never empty or mixed, and at the end nothing is left.
// Data behind hostPath and local volumes is unchanged.
func TestKilledAgents(t *testing.T) {
	mounttest.Need(t)
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	root, precious := mounttest.Dir(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(precious, "data"), []byte("precious"), 0o600))
	n, err := newNode(root, precious)
	require.NoError(t, err)
	for round := range kills {
		up := runAndKill(t, self, root, precious)
		for i := range n.work {
			n.check(t, i, up[i], fmt.Sprintf("round %d, volume %s", round, n.specs[i].InnerName()))
		}
		if round%10 == 9 {
			n.tearDownAll(t)
		}
		data, err := os.ReadFile(filepath.Join(precious, "data"))
		require.NoError(t, err)
		require.Equal(t, "precious", string(data))
	}
	n.tearDownAll(t)
}

// runAndKill returns the volumes that the agent has reported as ready, and not begun to tear down.
func runAndKill(t *testing.T, self, root, precious string) map[int]bool {
	t.Helper()
	var stderr, stdout bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), rootEnv+"="+root, preciousEnv+"="+precious)
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, 1)
	if _, err = out.Read(first); err != nil {
		_ = cmd.Wait()
		require.NoError(t, err, stderr.String())
	}
	stdout.Write(first)
	killed := time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	_, err = stdout.ReadFrom(out)
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Empty(t, stderr.String())
	up := map[int]bool{}
	for s := bufio.NewScanner(&stdout); s.Scan(); {
		var word string
		var i int
		if _, err := fmt.Sscan(s.Text(), &word, &i); err == nil {
			up[i] = word == "up"
		}
	}
	return up
}

// check reads a volume as a container does.
func (n *node) check(t *testing.T, i int, up bool, what string) {
	t.Helper()
	m := n.mount(i)
	if !up || m.Plugin == hostpath.Name {
		return
	}
	info, err := os.Stat(m.Dir())
	require.NoError(t, err, what)
	require.True(t, info.IsDir(), what)
	if m.Plugin != configmap.Name && m.Plugin != secret.Name && m.Plugin != projected.Name {
		return
	}
	current, err := filepath.EvalSymlinks(filepath.Join(m.Dir(), "..data"))
	require.NoError(t, err, "%s: what was up is never empty", what)
	a, err := os.ReadFile(filepath.Join(current, "a"))
	require.NoError(t, err, what)
	require.Len(t, a, 7*200, what)
	for _, key := range []string{"b", "c"} {
		other, err := os.ReadFile(filepath.Join(current, key))
		require.NoError(t, err, what)
		require.Equal(t, string(a), string(other), "%s: one version", what)
	}
}

// tearDownAll tears all volumes down, as the next agent does after the end of the pod, and checks
// that nothing is left.
func (n *node) tearDownAll(t *testing.T) {
	t.Helper()
	for i, p := range n.work {
		m := n.mount(i)
		require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
	}
	require.Empty(t, mounttest.Below(t, n.root))
	require.NoError(t, filepath.WalkDir(filepath.Join(n.root, "pods"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", name)
		}
		return err
	}))
}
