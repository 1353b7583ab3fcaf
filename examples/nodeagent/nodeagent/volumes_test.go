// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestVolumesStayBelowTheirRoot(t *testing.T) {
	root := t.TempDir()
	v := volumes{root: filepath.Join(root, "pods")}
	precious := filepath.Join(root, "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))

	pod := &v1.Pod{}
	pod.UID = "uid"
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	require.NoError(t, v.setUp(pod))
	require.NoError(t, v.setUp(pod), "again")
	path, err := v.path("uid", "data")
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, os.Symlink(root, filepath.Join(path, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "pods", "uid", "etc-hosts"), nil, 0o600))
	require.NoError(t, v.tearDown("uid"))
	require.FileExists(t, filepath.Join(root, "pods", "uid", "etc-hosts"), "what is not a volume stays")
	require.NoError(t, v.purge("uid"))
	require.NoDirExists(t, filepath.Join(root, "pods", "uid"))
	require.FileExists(t, precious, "links are not followed")

	for _, uid := range []types.UID{"", ".", "..", "../x", "a/b", "/"} {
		require.Error(t, v.purge(uid), "%q", uid)
		pod.UID = uid
		require.Error(t, v.setUp(pod), "%q", uid)
	}
	pod.UID = "uid"
	for _, name := range []string{"", "..", "../../x"} {
		pod.Spec.Volumes[0].Name = name
		require.Error(t, v.setUp(pod), "%q", name)
	}
	require.FileExists(t, precious)
	require.DirExists(t, v.root)
}
