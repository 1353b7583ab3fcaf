// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

const value = "never to be seen in an error"

func mountOf(root string, items ...v1.KeyToPath) volumemanager.Mount {
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: root, PodUID: "uid", Plugin: secret.Name, Inner: "pass"},
		Pod:   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}},
		Spec: volumemanager.Spec{Volume: &v1.Volume{Name: "pass", VolumeSource: v1.VolumeSource{
			Secret: &v1.SecretVolumeSource{SecretName: "s", Items: items},
		}}},
	}
}

func plugin(t *testing.T, mounter mount.Mounter, data map[string]string) *secret.Plugin {
	t.Helper()
	store, err := objects.NewStore(objects.Options{})
	require.NoError(t, err)
	store.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, StringData: data})
	p, err := secret.New(secret.Options{Source: store, Mounter: mounter})
	require.NoError(t, err)
	return p
}

func TestSecretsStayOffTheDisk(t *testing.T) {
	mounter := mounttest.Need(t)
	m := mountOf(mounttest.Dir(t))
	p := plugin(t, mounter, map[string]string{"password": value})
	for range 2 {
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
		require.Len(t, mounttest.Below(t, m.Root), 1, "mounted once")
	}
	require.NoError(t, mounter.Unmount(t.Context(), m.Dir()))
	entries, err := os.ReadDir(m.Dir())
	require.NoError(t, err)
	assert.Empty(t, entries, "there was nothing on the disk below")
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
	assert.NoDirExists(t, m.Dir())
}

// TestVolumeInUseIsNotMountedOver: an agent that can mount takes over from an agent that could not.
func TestVolumeInUseIsNotMountedOver(t *testing.T) {
	mounter := mounttest.Need(t)
	m := mountOf(mounttest.Dir(t))
	_, err := plugin(t, mount.None{}, map[string]string{"password": "old"}).SetUp(t.Context(), m)
	require.NoError(t, err)
	before, err := os.Stat(m.Dir())
	require.NoError(t, err)
	m.Reconstructed = true
	p := plugin(t, mounter, map[string]string{"password": "new"})
	_, err = p.SetUp(t.Context(), m)
	require.NoError(t, err)
	after, err := os.Stat(m.Dir())
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	data, err := os.ReadFile(filepath.Join(m.Dir(), "password"))
	require.NoError(t, err)
	assert.Equal(t, "new", string(data))
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
}

func TestErrorsNameKeysAndNeverContent(t *testing.T) {
	for name, items := range map[string][]v1.KeyToPath{
		"climbs":  {{Key: "password", Path: "../../x"}},
		"missing": {{Key: "other", Path: "x"}},
		"clash":   {{Key: "password", Path: "x"}, {Key: "password", Path: "x/y"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugin(t, mount.None{}, map[string]string{"password": value}).SetUp(t.Context(), mountOf(t.TempDir(), items...))
			require.ErrorContains(t, err, `volume "pass": `)
			assert.NotContains(t, err.Error(), value)
		})
	}
	full := mounttest.Tmpfs(t, "64k")
	_, err := plugin(t, mount.None{}, map[string]string{"password": strings.Repeat(value, 1<<13)}).SetUp(t.Context(), mountOf(full))
	require.ErrorContains(t, err, `volume "pass": path "password": no space left on device`)
	assert.NotContains(t, err.Error(), value)
}

func Example() {
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	plugin, err := secret.New(secret.Options{
		Mounter: mount.None{}, // no tmpfs
		Source: secret.SourceFunc(func(_ context.Context, namespace, name string) (*v1.Secret, error) {
			return &v1.Secret{Data: map[string][]byte{"user": []byte("admin")}}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mounted, err := plugin.SetUp(context.Background(), mountOf(root)) // a volumemanager.Manager does this
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(mounted.Path, "user"))
	fmt.Println(string(text), err)
	// Output: admin <nil>
}
