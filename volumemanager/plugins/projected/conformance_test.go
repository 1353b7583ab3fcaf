// SPDX-License-Identifier: Apache-2.0

package projected_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func plugin(tb testing.TB, o projected.Options) *projected.Plugin {
	tb.Helper()
	p, err := projected.New(o)
	require.NoError(tb, err)
	return p
}

func volume(sources ...v1.VolumeProjection) *v1.Volume {
	return &v1.Volume{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}}
}

func configMapSource(name string, items ...v1.KeyToPath) v1.VolumeProjection {
	return v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Items: items,
	}}
}

func tokenSource(path string) v1.VolumeProjection {
	return v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: path}}
}

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		var generation atomic.Int64
		var broken atomic.Bool
		o := projected.Options{
			ConfigMaps: configmap.SourceFunc(func(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
				if broken.Load() {
					return nil, errors.New("the API server is away")
				}
				return &v1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					Data:       map[string]string{"ca.crt": fmt.Sprint(generation.Load())},
				}, nil
			}),
			Tokens: projected.TokenSourceFunc(func(context.Context, projected.TokenRequest) (projected.Token, error) {
				return projected.Token{Value: "token", Expires: time.Now().Add(time.Hour)}, nil
			}),
		}
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin { return plugin(tb, o) },
			Spec:   volumemanager.Spec{Volume: volume(configMapSource("root-ca"), tokenSource("token"))},
			Change: func() { generation.Add(1) },
			Break:  func() func() { broken.Store(true); return func() { broken.Store(false) } },
		}
	}})
}
