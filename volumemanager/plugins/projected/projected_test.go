// SPDX-License-Identifier: Apache-2.0

package projected_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

func mountOf(root string, vol *v1.Volume) volumemanager.Mount {
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: root, PodUID: "uid", Plugin: projected.Name, Inner: vol.Name},
		Spec:  volumemanager.Spec{Volume: vol}, Outer: []string{vol.Name},
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Labels: map[string]string{"app": "x"}}},
	}
}

// everything returns options with all sources.
func everything(t *testing.T) projected.Options {
	t.Helper()
	store, err := objects.NewStore(objects.Options{})
	require.NoError(t, err)
	store.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}, Data: map[string]string{"a": "of the configMap", "b": "b"}})
	store.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, StringData: map[string]string{"a": "of the secret"}})
	return projected.Options{
		ConfigMaps: store, Secrets: store, TrustBundles: bundles{}, Certificates: certificates{}, Mounter: mount.None{},
		Tokens: projected.TokenSourceFunc(func(_ context.Context, r projected.TokenRequest) (projected.Token, error) {
			return projected.Token{Value: fmt.Sprintf("%+v", r), Expires: time.Now().Add(time.Hour)}, nil
		}),
	}
}

type bundles struct{}

func (bundles) Bundle(_ context.Context, want *v1.ClusterTrustBundleProjection) ([]byte, error) {
	if want.Name == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, "")
	}
	return []byte("bundle " + *want.Name), nil
}

type certificates struct{}

func (certificates) Certificate(context.Context, *v1.Pod, *v1.PodCertificateProjection) (projected.Certificate, error) {
	return projected.Certificate{Key: []byte("key."), Chain: []byte("chain.")}, nil
}

func secretSource(name string) v1.VolumeProjection {
	return v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(data)
}

func TestAllSourcesLaterWins(t *testing.T) {
	bundle, seconds := "roots", int64(600)
	m := mountOf(t.TempDir(), volume(
		configMapSource("cm"),
		secretSource("s"),
		v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}},
		v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t", Audience: "vault", ExpirationSeconds: &seconds}},
		v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "ca/roots.pem"}},
		v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
			CredentialBundlePath: "cert/all.pem", KeyPath: "cert/key.pem", CertificateChainPath: "cert/chain.pem",
		}},
	))
	p := plugin(t, everything(t))
	_, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"a": "of the secret", "b": "b", "labels": `app="x"`, "ca/roots.pem": "bundle roots",
		"t":            "{Namespace:ns ServiceAccount:default Pod:pod PodUID:uid Audience:vault ExpirationSeconds:600}",
		"cert/all.pem": "key.chain.", "cert/key.pem": "key.", "cert/chain.pem": "chain.",
	} {
		assert.Equal(t, want, read(t, m.Dir(), name), name)
	}
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
}

func TestPrivateFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	user, group, mode := int64(1234), int64(5678), int32(0o444)
	v := volume(configMapSource("cm"), tokenSource("t"))
	v.Projected.DefaultMode = &mode
	for _, tc := range []struct {
		name          string
		user, group   *int64
		token, config string
	}{
		{"nobody", nil, nil, "-r--r--r-- 0 0", "-r--r--r-- 0 0"},
		{"user", &user, nil, "-rw------- 1234 0", "-r--r--r-- 0 0"},
		{"group", nil, &group, "-rw-r----- 0 5678", "-r--r--r-- 0 5678"},
		{"both", &user, &group, "-rw-r----- 1234 5678", "-r--r--r-- 0 5678"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mountOf(t.TempDir(), v)
			m.FSUser, m.FSGroup = tc.user, tc.group
			_, err := plugin(t, everything(t)).SetUp(t.Context(), m)
			require.NoError(t, err)
			for name, want := range map[string]string{"t": tc.token, "a": tc.config} {
				info, err := os.Stat(filepath.Join(m.Dir(), name))
				require.NoError(t, err)
				st := info.Sys().(*syscall.Stat_t)
				assert.Equal(t, want, fmt.Sprint(info.Mode(), " ", st.Uid, " ", st.Gid), name)
			}
		})
	}
}

func TestErrorsOfAllSourcesAreJoined(t *testing.T) {
	p := plugin(t, projected.Options{Mounter: mount.None{}})
	bundle := "x"
	m := mountOf(t.TempDir(), volume(
		configMapSource("cm"), secretSource("s"), tokenSource("t"), v1.VolumeProjection{},
		v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "x"}},
		v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{KeyPath: "x"}},
	))
	_, err := p.SetUp(t.Context(), m)
	require.ErrorIs(t, err, volumemanager.ErrTerminal)
	for i, want := range []string{"configMaps", "secrets", "service account tokens", "names no source", "trust bundles", "pod certificates"} {
		require.ErrorContains(t, err, fmt.Sprintf("sources[%d]: ", i))
		require.ErrorContains(t, err, want)
	}
	assert.NoDirExists(t, filepath.Join(m.Root, "pods"), "nothing was touched")
}

func TestOptionalBundleMayBeEmpty(t *testing.T) {
	yes := true
	for _, optional := range []*bool{nil, &yes} {
		m := mountOf(t.TempDir(), volume(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "x", Optional: optional}}))
		_, err := plugin(t, everything(t)).SetUp(t.Context(), m)
		if optional == nil {
			require.ErrorContains(t, err, "not found")
			continue
		}
		require.NoError(t, err)
		assert.Empty(t, read(t, m.Dir(), "x"))
	}
}

// TestNoClusterIsNeededForWhatNeedsNone: the kubelet needs an API server even for fields of the
// pod.
func TestNoClusterIsNeededForWhatNeedsNone(t *testing.T) {
	m := mountOf(t.TempDir(), volume(v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
		{Path: "uid", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
	}}}))
	_, err := plugin(t, projected.Options{Mounter: mount.None{}}).SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, "uid", read(t, m.Dir(), "uid"))
}

func TestTearDownForgetsTokens(t *testing.T) {
	i := &issuer{life: time.Hour}
	o := everything(t)
	o.Tokens = newCache(t, i, nil)
	p := plugin(t, o)
	m := mountOf(t.TempDir(), volume(tokenSource("t")))
	for range 2 {
		for range 3 {
			_, err := p.SetUp(t.Context(), m)
			require.NoError(t, err)
		}
		require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
	}
	assert.Equal(t, 2, i.made)
}

func TestTokensStayOffTheDisk(t *testing.T) {
	mounter := mounttest.Need(t)
	o := everything(t)
	o.Mounter = mounter
	m := mountOf(mounttest.Dir(t), volume(tokenSource("t")))
	p := plugin(t, o)
	_, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	info, mounted, err := mounter.At(m.Dir())
	require.NoError(t, err)
	require.True(t, mounted)
	assert.Equal(t, "tmpfs", info.Type)
	assert.Contains(t, info.Options, "nosuid")
	assert.Contains(t, info.Options, "nodev")
	require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
}

func TestHasToken(t *testing.T) {
	assert.True(t, projected.HasToken(*volume(configMapSource("x"), tokenSource("t"))))
	assert.False(t, projected.HasToken(*volume(configMapSource("x"))))
	assert.False(t, projected.HasToken(v1.Volume{}))
}

func Example() {
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	tokens, err := projected.NewTokenCache(projected.TokenCacheOptions{Source: projected.TokenSourceFunc(
		func(_ context.Context, r projected.TokenRequest) (projected.Token, error) {
			return projected.Token{Value: "token of " + r.ServiceAccount, Expires: time.Now().Add(time.Hour)}, nil
		})})
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin, err := projected.New(projected.Options{Tokens: tokens, Mounter: mount.None{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mounted, err := plugin.SetUp(context.Background(), mountOf(root, volume(tokenSource("token")))) // a Manager does this
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(mounted.Path, "token"))
	fmt.Println(string(text), err)
	// Output: token of default <nil>
}
