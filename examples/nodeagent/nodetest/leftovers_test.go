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

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
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

// A folder that cannot be removed is said once, and not at each housekeeping.
func TestAFolderThatStaysIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.WarnLevel)
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) { o.Logger = zap.New(core) }})
		stays := filepath.Join(node.Root(), "pods", "uid-left", "volumes", "kubernetes.io~nfs", "v")
		require.NoError(t, os.MkdirAll(stays, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(stays, "precious"), nil, 0o600))
		time.Sleep(10 * time.Minute)
		node.Settle()
		require.FileExists(t, filepath.Join(stays, "precious"))
		require.Len(t, log.FilterMessage("cannot clear up what a pod has left").All(), 1, "%v", log.All())
	})
}
