// SPDX-License-Identifier: Apache-2.0

package emptydir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func mountOf(root string, v *v1.Volume) volumemanager.Mount {
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: root, PodUID: "uid", Plugin: emptydir.Name, Inner: v.Name},
		Spec:  volumemanager.Spec{Volume: v}, Pod: &v1.Pod{}, Outer: []string{v.Name},
	}
}

func limits(name v1.ResourceName, amount string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList{name: resource.MustParse(amount)}}
}

func TestModeIsOpenWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	p := plugin(t, emptydir.Options{})
	sticky := int32(0o1770)
	for _, tc := range []struct {
		mode *int32
		want os.FileMode
	}{{nil, os.ModeDir | 0o777}, {&sticky, os.ModeDir | os.ModeSticky | 0o770}} {
		v := volume(v1.StorageMediumDefault, "")
		v.EmptyDir.Mode = tc.mode
		m := mountOf(t.TempDir(), v)
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
		info, err := os.Stat(m.Dir())
		require.NoError(t, err)
		assert.Equal(t, tc.want, info.Mode())
	}
}

// TestReadyVolumeIsLeftAlone: changes of the folder by containers stay, and a set-up interrupted by
// a crash is completed.
func TestReadyVolumeIsLeftAlone(t *testing.T) {
	p := plugin(t, emptydir.Options{})
	m := mountOf(t.TempDir(), volume(v1.StorageMediumDefault, ""))
	_, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	require.NoDirExists(t, m.StateDir())
	require.NoError(t, os.Chmod(m.Dir(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir(), "data"), nil, 0o600))
	mode := func() os.FileMode {
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(m.Dir(), "data"))
		info, err := os.Stat(m.Dir())
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	assert.Equal(t, os.FileMode(0o700), mode())
	cuts := []os.FileMode{0o400, os.ModeSetgid | 0o400}
	if os.Geteuid() == 0 {
		cuts = append(cuts, 0) // a folder without permissions for other users
	}
	for _, cut := range cuts {
		require.NoError(t, os.Chmod(m.Dir(), cut))
		assert.Equal(t, os.FileMode(0o777), mode(), "a set-up that was cut off is finished, and empties nothing")
	}
}

func TestSizeOfMemory(t *testing.T) {
	mounttest.Need(t)
	limited := v1.Container{Resources: limits(v1.ResourceMemory, "2Mi")}
	always := v1.ContainerRestartPolicyAlways
	sidecar := v1.Container{Resources: limits(v1.ResourceMemory, "1Mi"), RestartPolicy: &always}
	for _, tc := range []struct {
		name        string
		limit       string
		allocatable string
		pod         v1.PodSpec
		want        string // "" = no size
	}{
		{"none", "", "0", v1.PodSpec{Containers: []v1.Container{{}}}, ""},
		{"sizeLimit", "1Mi", "8Mi", v1.PodSpec{Containers: []v1.Container{{}}}, "1024k"},
		{"node", "", "8Mi", v1.PodSpec{Containers: []v1.Container{limited, {}}}, "8192k"},
		{"containers", "16Mi", "32Mi", v1.PodSpec{Containers: []v1.Container{limited, limited}}, "4096k"},
		{"init container", "", "32Mi", v1.PodSpec{InitContainers: []v1.Container{{Resources: limits(v1.ResourceMemory, "8Mi")}}, Containers: []v1.Container{limited}}, "8192k"},
		{"sidecar", "", "32Mi", v1.PodSpec{InitContainers: []v1.Container{sidecar, limited}, Containers: []v1.Container{limited}}, "3072k"},
		{"pod", "16Mi", "32Mi", v1.PodSpec{Containers: []v1.Container{{}}, Resources: &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Mi")}}}, "3072k"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := plugin(t, emptydir.Options{AllocatableMemory: func() resource.Quantity { return resource.MustParse(tc.allocatable) }})
			m := mountOf(mounttest.Dir(t), volume(v1.StorageMediumMemory, tc.limit))
			m.Pod.Spec = tc.pod
			_, err := p.SetUp(t.Context(), m)
			require.NoError(t, err)
			info, mounted, err := mount.Detect().At(m.Dir())
			require.NoError(t, err)
			require.True(t, mounted)
			assert.Equal(t, "tmpfs", info.Type)
			root, err := os.Stat(m.Dir())
			require.NoError(t, err)
			assert.Equal(t, os.ModeDir|os.ModeSticky|0o777, root.Mode(), "what the kernel gives a tmpfs")
			_, size, _ := strings.Cut(info.FSOptions, "size=")
			size, _, _ = strings.Cut(size, ",")
			assert.Equal(t, tc.want, size, info.FSOptions)
			require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
			assert.NoDirExists(t, m.Dir())
		})
	}
}

func TestMemoryIsFullAtItsLimit(t *testing.T) {
	mounttest.Need(t)
	p := plugin(t, emptydir.Options{})
	m := mountOf(mounttest.Dir(t), volume(v1.StorageMediumMemory, "128Ki"))
	_, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(filepath.Join(m.Dir(), "big"), make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}), "without a spec, after a restart")
	assert.NoDirExists(t, m.Dir())
}

func TestWhatTheNodeLacksIsRefused(t *testing.T) {
	pages := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(pages, "hugepages-1048576kB"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(pages, "hugepages-1048576kB/nr_hugepages"), []byte("0\n"), 0o600))
	requests := func(names ...v1.ResourceName) v1.PodSpec {
		r := v1.ResourceList{}
		for _, n := range names {
			r[n] = resource.MustParse("2Gi")
		}
		return v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: r}}}}
	}
	real := mount.Mounter(pretend{})
	for _, tc := range []struct {
		name    string
		medium  v1.StorageMedium
		mounter mount.Mounter
		pod     v1.PodSpec
		want    string
	}{
		{"memory without mounts", "Memory", mount.None{}, v1.PodSpec{}, "this agent cannot mount"},
		{"huge pages without mounts", "HugePages", mount.None{}, requests("hugepages-2Mi"), "this agent cannot mount"},
		{"no such medium", "Paper", real, v1.PodSpec{}, `unknown medium "Paper"`},
		{"nothing requested", "HugePages", real, v1.PodSpec{}, "requests no huge pages"},
		{"two sizes", "HugePages", real, requests("hugepages-2Mi", "hugepages-1Gi"), "of several sizes"},
		{"other size", "HugePages-2Mi", real, requests("hugepages-1Gi"), "requests no pages of that size"},
		{"no size", "HugePages-big", real, requests("hugepages-1Gi"), "no page size"},
		{"unknown to the kernel", "HugePages-2Mi", real, requests("hugepages-2Mi"), "huge pages of 2Mi: not supported on this node"},
		{"none set aside", "HugePages-1Gi", real, requests("hugepages-1Gi"), "the node has set none aside"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := plugin(t, emptydir.Options{Mounter: tc.mounter})
			p.SetHugePages(pages)
			m := mountOf(t.TempDir(), volume(tc.medium, ""))
			m.Pod.Spec = tc.pod
			_, err := p.SetUp(t.Context(), m)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, `volume "scratch": `)
			require.ErrorIs(t, err, volumemanager.ErrTerminal)
			assert.NoDirExists(t, filepath.Join(m.Root, "pods"))
		})
	}
}

// pretend is a Mounter that claims to mount, and is never called.
type pretend struct{ mount.None }

func TestHugePages(t *testing.T) {
	mounttest.Need(t)
	pages := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(pages, "hugepages-2048kB"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(pages, "hugepages-2048kB/nr_hugepages"), []byte("4\n"), 0o600))
	p := plugin(t, emptydir.Options{})
	p.SetHugePages(pages)
	m := mountOf(mounttest.Dir(t), volume("HugePages", ""))
	m.Pod.Spec.Containers = []v1.Container{{Resources: limits("hugepages-2Mi", "4Mi")}}
	for range 2 {
		if _, err := p.SetUp(t.Context(), m); err != nil {
			t.Skipf("no hugetlbfs here: %v", err)
		}
	}
	info, mounted, err := mount.Detect().At(m.Dir())
	require.NoError(t, err)
	require.True(t, mounted)
	assert.Equal(t, "hugetlbfs", info.Type)
	assert.Contains(t, info.FSOptions, "pagesize=2M")
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
	assert.NoDirExists(t, m.Dir())
}

func TestGroupErrorsAreErrors(t *testing.T) {
	group := int64(-5) // the kubelet ignores errors about the fsGroup
	p := plugin(t, emptydir.Options{})
	m := mountOf(t.TempDir(), volume(v1.StorageMediumDefault, ""))
	m.FSGroup = &group
	_, err := p.SetUp(t.Context(), m)
	require.ErrorContains(t, err, "fsGroup -5")
	info, err := os.Stat(m.Dir())
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|0o400, info.Mode(), "it is not ready")
	group = int64(os.Getgid())
	_, err = p.SetUp(t.Context(), m)
	require.NoError(t, err)
	info, err = os.Stat(m.Dir())
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|os.ModeSetgid|0o777, info.Mode())
}

// TestUpstream7317MountsInsideAreNotEmptied: a foreign mount at or below the folder does not belong
// to the volume.
func TestUpstream7317MountsInsideAreNotEmptied(t *testing.T) {
	mounttest.Need(t)
	for _, at := range []string{"", "below/it"} {
		t.Run("at "+at, func(t *testing.T) {
			p := plugin(t, emptydir.Options{})
			m := mountOf(t.TempDir(), volume(v1.StorageMediumDefault, ""))
			_, err := p.SetUp(t.Context(), m)
			require.NoError(t, err)
			precious := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(precious, "data"), nil, 0o600))
			mounttest.Mount(t, mount.Request{Source: precious, Target: filepath.Join(m.Dir(), at), Options: []string{"bind"}})
			for _, spec := range []volumemanager.Spec{m.Spec, {}} {
				require.ErrorContains(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: spec}), "mounted there")
			}
			assert.FileExists(t, filepath.Join(precious, "data"))
		})
	}
}

func Example() {
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	plugin, err := emptydir.New(emptydir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := mountOf(root, &v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	mounted, err := plugin.SetUp(context.Background(), m) // a volumemanager.Manager does this
	fmt.Println(strings.TrimPrefix(mounted.Path, root), err)
	fmt.Println(plugin.TearDown(context.Background(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
	// Output:
	// /pods/uid/volumes/kubernetes.io~empty-dir/scratch <nil>
	// <nil>
}
