// SPDX-License-Identifier: Apache-2.0

package emptydir_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func volume(medium v1.StorageMedium, limit string) *v1.Volume {
	source := &v1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		q := resource.MustParse(limit)
		source.SizeLimit = &q
	}
	return &v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: source}}
}

func TestConformanceOnDisk(t *testing.T) { conformance(t, v1.StorageMediumDefault) }

func TestConformanceInMemory(t *testing.T) {
	needMounts(t)
	conformance(t, v1.StorageMediumMemory)
}

func conformance(t *testing.T, medium v1.StorageMedium) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin { return plugin(tb, emptydir.Options{}) },
			Spec:   volumemanager.Spec{Volume: volume(medium, "1Mi")},
		}
	}})
}

func plugin(tb testing.TB, o emptydir.Options) *emptydir.Plugin {
	tb.Helper()
	p, err := emptydir.New(o)
	require.NoError(tb, err)
	return p
}

func needMounts(tb testing.TB) {
	tb.Helper()
	if _, none := mount.Detect().(mount.None); none {
		tb.Skip("this process cannot mount (it needs Linux and CAP_SYS_ADMIN)")
	}
}
