// SPDX-License-Identifier: Apache-2.0

package secret_test

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
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func TestConformance(t *testing.T) {
	for name, mounter := range map[string]mount.Mounter{"as this process can": mount.Detect(), "without mounts": mount.None{}} {
		t.Run(name, func(t *testing.T) { conformance(t, mounter) })
	}
}

func conformance(t *testing.T, mounter mount.Mounter) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		var generation atomic.Int64
		var broken atomic.Bool
		get := func(_ context.Context, namespace, name string) (*v1.Secret, error) {
			if broken.Load() {
				return nil, errors.New("the API server is away")
			}
			return &v1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Data:       map[string][]byte{"password": fmt.Append(nil, generation.Load())},
			}, nil
		}
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin {
				p, err := secret.New(secret.Options{Source: secret.SourceFunc(get), Mounter: mounter})
				require.NoError(tb, err)
				return p
			},
			Spec: volumemanager.Spec{Volume: &v1.Volume{Name: "pass", VolumeSource: v1.VolumeSource{
				Secret: &v1.SecretVolumeSource{SecretName: "pass"},
			}}},
			Change: func() { generation.Add(1) },
			Break:  func() func() { broken.Store(true); return func() { broken.Store(false) } },
		}
	}})
}
