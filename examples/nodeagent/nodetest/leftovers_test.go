// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
)

// The tracker's listing at the start of the agent does not keep the folder of a pod that was
// removed since.
func TestTheFolderOfAPodThatWasTakenOverGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.Apply(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(1), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}))
		time.Sleep(10 * time.Second)
		folder := filepath.Join(n.Root(), "pods", "uid-web")
		require.DirExists(t, folder)
		n.RestartAgent()
		time.Sleep(5 * time.Second)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "etc-hosts"), nil, 0o600), "as a runtime's backend may")
		n.Apply()
		time.Sleep(5 * time.Second)
		n.Settle()
		require.NoDirExists(t, folder)
	})
}

// A folder that cannot be removed is said once, and not at each housekeeping.
func TestAFolderThatStaysIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.WarnLevel)
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { o.Logger = zap.New(core) }})
		stays := filepath.Join(n.Root(), "pods", "uid-left", "volumes", "kubernetes.io~nfs", "v")
		require.NoError(t, os.MkdirAll(stays, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(stays, "precious"), nil, 0o600))
		time.Sleep(10 * time.Minute)
		n.Settle()
		require.FileExists(t, filepath.Join(stays, "precious"))
		require.Len(t, log.FilterMessage("the remains of a pod cannot be removed").All(), 1, "%v", log.All())
	})
}

// An agent that is killed between the removal of a pod's volumes and of its logs leaves a log
// folder of a pod that neither the runtime nor the folder of volumes knows. The next agent removes
// the folder with the other leftovers, not with the garbage of the next minute. The logs of a
// configured pod stay.
func TestTheLogsThatAKilledAgentLeftGoSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(10 * time.Second)
		logs := filepath.Join(n.Root(), "logs")
		left, stays := filepath.Join(logs, "default_left_uid-left", "c"), filepath.Join(logs, "default_web_uid-web", "c")
		for _, dir := range []string{left, stays} {
			require.NoError(t, os.MkdirAll(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "0.log"), nil, 0o600))
		}
		n.RestartAgent()
		time.Sleep(5 * time.Second)
		n.Settle()
		require.NoDirExists(t, filepath.Dir(left))
		require.FileExists(t, filepath.Join(stays, "0.log"))
	})
}

// lossy is a runtime that loses an object each time.
type lossy struct {
	runtime.Runtime
	began     time.Time
	mu        sync.Mutex
	collected []time.Duration
}

func (l *lossy) Leftovers(context.Context) ([]runtime.Leftover, error) {
	return []runtime.Leftover{{Kind: runtime.LeftoverShim, PID: 1, Ours: true}, {Kind: runtime.LeftoverShim, PID: 2}}, nil
}

func (l *lossy) Collect(_ context.Context, left runtime.Leftover) error {
	if left.PID != 1 {
		return errors.New("not ours")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collected = append(l.collected, time.Since(l.began))
	return nil
}

// A runtime may lose something seconds after the agent before was killed. The pauses between the audits of
// a node without failed calls double, up to ten minutes.
func TestLeftoversOfTheRuntimeAreCollectedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &lossy{began: time.Now()}
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			rt.Runtime = o.Runtime
			o.Runtime = rt
		}})
		time.Sleep(10*time.Second + time.Millisecond)
		n.Settle()
		rt.mu.Lock()
		defer rt.mu.Unlock()
		require.Equal(t, []time.Duration{3 * time.Second, 9 * time.Second}, rt.collected)
		rt.mu.Unlock()
		time.Sleep(time.Hour)
		n.Settle()
		rt.mu.Lock()
		for i, at := range rt.collected[1:] {
			require.LessOrEqual(t, at-rt.collected[i], 11*time.Minute, "with the garbage of each minute")
		}
		require.GreaterOrEqual(t, rt.collected[len(rt.collected)-1], 49*time.Minute)
	})
}
