// SPDX-License-Identifier: Apache-2.0

package downwardapi_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/downwardapi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		var generation atomic.Int64
		labels := map[string]string{}
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin {
				p, err := downwardapi.New(downwardapi.Options{})
				require.NoError(tb, err)
				return p
			},
			Spec: volumemanager.Spec{Volume: &v1.Volume{Name: "info", VolumeSource: v1.VolumeSource{
				DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
					{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
					{Path: "meta/name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
				}},
			}}},
			Pod:    func(pod *v1.Pod) { pod.Labels = labels },
			Change: func() { labels["generation"] = fmt.Sprint(generation.Add(1)) },
		}
	}})
}
