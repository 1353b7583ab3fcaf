// SPDX-License-Identifier: Apache-2.0

package downwardapi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/downwardapi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func mountOf(root string, fields ...string) volumemanager.Mount {
	source := &v1.DownwardAPIVolumeSource{}
	for i, f := range fields {
		source.Items = append(source.Items, v1.DownwardAPIVolumeFile{Path: fmt.Sprint(i), FieldRef: &v1.ObjectFieldSelector{FieldPath: f}})
	}
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: root, PodUID: "uid", Plugin: downwardapi.Name, Inner: "info"},
		Pod:   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid"}},
		Spec:  volumemanager.Spec{Volume: &v1.Volume{Name: "info", VolumeSource: v1.VolumeSource{DownwardAPI: source}}},
	}
}

func TestAllErrorsAreTold(t *testing.T) {
	p, err := downwardapi.New(downwardapi.Options{Mounter: mount.None{}})
	require.NoError(t, err)
	m := mountOf(t.TempDir(), "metadata.name", "no.such", "metadata.uid", "nor.this")
	_, err = p.SetUp(t.Context(), m)
	require.ErrorContains(t, err, `volume "info": path "1": unsupported fieldPath "no.such"`)
	require.ErrorContains(t, err, `path "3": unsupported fieldPath "nor.this"`)
	assert.NoDirExists(t, filepath.Join(m.Root, "pods"))
}

func Example() {
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	plugin, err := downwardapi.New(downwardapi.Options{Mounter: mount.None{}}) // no tmpfs
	if err != nil {
		fmt.Println(err)
		return
	}
	mounted, err := plugin.SetUp(context.Background(), mountOf(root, "metadata.name")) // a volumemanager.Manager does this
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(mounted.Path, "0"))
	fmt.Println(string(text), err)
	// Output: web <nil>
}
