// SPDX-License-Identifier: Apache-2.0

package configmap_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func volume(name string, edit func(*v1.ConfigMapVolumeSource)) *v1.Volume {
	source := &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "config"}}
	if edit != nil {
		edit(source)
	}
	return &v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: source}}
}

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		var generation atomic.Int64
		var broken atomic.Bool
		get := func(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
			if broken.Load() {
				return nil, errors.New("the API server is away")
			}
			return &v1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Data:       map[string]string{"a": fmt.Sprint(generation.Load()), "b": "constant"},
				BinaryData: map[string][]byte{"c": {0, 1, 2}},
			}, nil
		}
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin {
				p, err := configmap.New(configmap.Options{Source: configmap.SourceFunc(get)})
				require.NoError(tb, err)
				return p
			},
			Spec:   volumemanager.Spec{Volume: volume("config", nil)},
			Change: func() { generation.Add(1) },
			Break:  func() func() { broken.Store(true); return func() { broken.Store(false) } },
		}
	}})
}
