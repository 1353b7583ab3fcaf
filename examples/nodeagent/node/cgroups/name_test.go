// SPDX-License-Identifier: Apache-2.0

package cgroups_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
)

// The names are the kubelet's.
func TestPath(t *testing.T) {
	for _, tt := range []struct {
		parts             []string
		cgroupfs, systemd string
	}{
		{nil, "/", "/"},
		{[]string{"kubepods"}, "/kubepods", "/kubepods.slice"},
		{[]string{"kubepods", "burstable", "pod1234-ab"}, "/kubepods/burstable/pod1234-ab", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_ab.slice"},
		{[]string{"my-root", "kubepods"}, "/my-root/kubepods", "/my_root.slice/my_root-kubepods.slice"},
	} {
		got, err := cgroups.Path(cgroups.Cgroupfs, tt.parts...)
		require.NoError(t, err)
		assert.Equal(t, tt.cgroupfs, got)
		got, err = cgroups.Path(cgroups.Systemd, tt.parts...)
		require.NoError(t, err)
		assert.Equal(t, tt.systemd, got)
	}
	for _, part := range []string{"", ".", "..", "a/b", "a\x00"} {
		_, err := cgroups.Path(cgroups.Cgroupfs, "kubepods", part)
		require.ErrorContains(t, err, "is no name of a cgroup")
	}
	_, err := cgroups.Path(cgroups.Systemd, "a_b")
	require.ErrorContains(t, err, "is no part of a slice's name")
	_, err = cgroups.Path("docker", "a")
	require.ErrorContains(t, err, `cgroup driver "docker"`)
}

func TestParent(t *testing.T) {
	path := func(driver cgroups.Driver, root string, class v1.PodQOSClass, uid types.UID) string {
		t.Helper()
		g, err := cgroups.New(cgroups.Options{Writer: newMemory(), Driver: driver, Root: root, Records: t.TempDir()})
		require.NoError(t, err)
		pod := &v1.Pod{Status: v1.PodStatus{QOSClass: class}}
		pod.UID = uid
		return g.Parent(pod)
	}
	assert.Equal(t, "/kubepods/podu-1", path(cgroups.Cgroupfs, "", v1.PodQOSGuaranteed, "u-1"))
	assert.Equal(t, "/kubepods/burstable/podu-1", path(cgroups.Cgroupfs, "/", v1.PodQOSBurstable, "u-1"))
	assert.Equal(t, "/a/b/kubepods/besteffort/podu-1", path(cgroups.Cgroupfs, "/a/b/", v1.PodQOSBestEffort, "u-1"))
	assert.Equal(t, "/kubepods.slice/kubepods-podu_1.slice", path(cgroups.Systemd, "/", v1.PodQOSGuaranteed, "u-1"))
	assert.Empty(t, path(cgroups.Cgroupfs, "/", v1.PodQOSGuaranteed, "../x"))
}
