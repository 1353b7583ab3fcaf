// SPDX-License-Identifier: Apache-2.0

package projected_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// pki is a folder of a node without an API server: NAME.pem is a trust bundle, and
// SIGNER.key and SIGNER.crt are the key and certificate that pods of the node present.
type pki struct{ dir string }

// Bundle implements projected.TrustBundles.
func (p pki) Bundle(_ context.Context, want *v1.ClusterTrustBundleProjection) ([]byte, error) {
	if want.Name == nil {
		return nil, errors.New("bundles of this node have names only")
	}
	pem, err := os.ReadFile(filepath.Join(p.dir, filepath.Base(*want.Name)+".pem"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, *want.Name)
	}
	return pem, err
}

// Certificate implements projected.Certificates.
func (p pki) Certificate(_ context.Context, _ *v1.Pod, want *v1.PodCertificateProjection) (projected.Certificate, error) {
	base := filepath.Join(p.dir, filepath.Base(want.SignerName))
	key, err := os.ReadFile(base + ".key")
	chain, chainErr := os.ReadFile(base + ".crt")
	return projected.Certificate{Key: key, Chain: chain}, errors.Join(err, chainErr)
}

// Example_certificates: a node without an API server serves trust bundles and certificates of pods from a folder.
func Example_certificates() {
	dir, err := os.MkdirTemp("", "projected")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"site.pem": "the roots", "gateway.key": "a key, ", "gateway.crt": "and its chain"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	plugin, err := projected.New(projected.Options{TrustBundles: pki{dir}, Certificates: pki{dir}, Mounter: mount.Detect()})
	if err != nil {
		fmt.Println(err)
		return
	}
	bundle := "site"
	volume := &v1.Volume{Name: "tls", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "ca.pem"}},
		{PodCertificate: &v1.PodCertificateProjection{SignerName: "gateway", CredentialBundlePath: "own.pem"}},
	}}}}
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "1"
	m := volumemanager.Mount{ // in a program: made by volumemanager.Manager
		Place: volumemanager.Place{Root: dir, PodUID: pod.UID, Plugin: projected.Name, Inner: volume.Name},
		Spec:  volumemanager.Spec{Volume: volume}, Outer: []string{volume.Name}, Pod: pod,
	}
	if _, err := plugin.SetUp(context.Background(), m); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"ca.pem", "own.pem"} {
		data, err := os.ReadFile(filepath.Join(m.Dir(), name))
		fmt.Println(name, "=", string(data), err)
	}
	_ = plugin.TearDown(context.Background(), volumemanager.Unmount{Place: m.Place})
	// Output:
	// ca.pem = the roots <nil>
	// own.pem = a key, and its chain <nil>
}
