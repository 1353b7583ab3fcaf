// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// claiming is a node with two pods that share a claim, whose volume is a file system of 1 MiB, and a
// volume in memory.
func claiming(t *testing.T) *Collector {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems as root")
	}
	root := t.TempDir()
	mount := func(options string, folders ...string) {
		path := filepath.Join(append([]string{root, "pods"}, folders...)...)
		require.NoError(t, os.MkdirAll(path, 0o755))
		out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", path).CombinedOutput()
		if err != nil {
			t.Skipf("this machine does not let a test mount: %s", out)
		}
		t.Cleanup(func() { assert.NoError(t, exec.Command("umount", path).Run()) })
		require.NoError(t, os.WriteFile(filepath.Join(path, "file"), make([]byte, 100_000), 0o600))
	}
	var pods []*v1.Pod
	for _, uid := range []string{"1", "2"} {
		mount("size=1m,nr_inodes=100", uid, "volumes", "kubernetes.io~csi", "scratch", "mount")
		mount("size=2m", uid, "volumes", "kubernetes.io~empty-dir", "scratch")
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p" + uid, UID: types.UID(uid)}}
		pod.Spec.Volumes = []v1.Volume{
			{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
			{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
			{Name: "later", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "unmounted"}}},
		}
		pods = append(pods, pod)
	}
	c, err := New(Options{NodeName: "n", Pods: func() []*v1.Pod { return pods }, Root: root, LogDir: root,
		VolumeFolders: func(types.UID) map[string]string { return map[string]string{"scratch": "scratch", "data": "scratch"} }})
	require.NoError(t, err)
	return c
}

// The Summary and the metrics have the file system of a claim, although its folder has the name of
// another volume of the pod.
func TestVolumesOfClaims(t *testing.T) {
	c := claiming(t)
	s, err := c.Collect(t.Context(), Request{})
	require.NoError(t, err)
	for _, pod := range s.Summary.Pods {
		require.Len(t, pod.VolumeStats, 2)
		scratch, data := pod.VolumeStats[0], pod.VolumeStats[1]
		assert.Nil(t, scratch.PVCRef)
		assert.EqualValues(t, 2<<20, *scratch.CapacityBytes)
		assert.Equal(t, &statsapi.PVCReference{Namespace: "ns", Name: "claim"}, data.PVCRef)
		assert.EqualValues(t, 1<<20, *data.CapacityBytes)
		assert.EqualValues(t, 2, *data.InodesUsed, "the file and the folder")
	}
	claims := c.ClaimVolumes(t.Context())
	require.Len(t, claims, 1, "of two pods, once")
	assert.Equal(t, statsapi.PVCReference{Namespace: "ns", Name: "claim"}, claims[0].Claim)
	assert.EqualValues(t, 1<<20, *claims[0].Usage.CapacityBytes)
	assert.GreaterOrEqual(t, *claims[0].Usage.UsedBytes, uint64(100_000))

	c.VolumeFolders = nil
	assert.Empty(t, c.ClaimVolumes(t.Context()))
}

// A file system that does not answer is waited for once, for a moment, and by one goroutine.
func TestFileSystemsThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m systemMeter
		var reads atomic.Int32
		answer := make(chan struct{})
		read := func(string) fileSystem {
			reads.Add(1)
			<-answer
			return fileSystem{bytes: 7}
		}
		began := time.Now()
		for range 3 {
			_, known := m.system(t.Context(), "/a", read)
			assert.False(t, known)
		}
		assert.Equal(t, answerTime, time.Since(began))
		assert.EqualValues(t, 1, reads.Load())
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_, known := m.system(ctx, "/b", read)
		assert.False(t, known)
		assert.Equal(t, answerTime, time.Since(began), "a caller that has left")
		close(answer)
		synctest.Wait()
		s, known := m.system(t.Context(), "/a", read)
		assert.True(t, known)
		assert.EqualValues(t, 7, s.bytes)
	})
}
