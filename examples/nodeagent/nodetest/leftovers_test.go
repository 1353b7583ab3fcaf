// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

// What the tracker listed when the agent started is no reason to keep the folder
// of a pod that is removed since.
func TestTheFolderOfAPodThatWasTakenOverGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(1), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}))
		time.Sleep(10 * time.Second)
		folder := filepath.Join(node.Root(), "pods", "uid-web")
		require.DirExists(t, folder)
		node.RestartAgent()
		time.Sleep(5 * time.Second)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "etc-hosts"), nil, 0o600), "as a runtime's backend may")
		node.Apply()
		time.Sleep(5 * time.Second)
		node.Settle()
		require.NoDirExists(t, folder)
	})
}
