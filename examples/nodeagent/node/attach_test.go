// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

const attachedName = v1.UniqueVolumeName("example.com/fake/pv-data")

// controller is a Node object and the controller that attaches volumes to the node.
type controller struct {
	mu       sync.Mutex
	attached map[v1.UniqueVolumeName]string
	reports  [][]v1.UniqueVolumeName
	err      error
}

func (c *controller) AttachedVolumes(context.Context) (map[v1.UniqueVolumeName]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached, nil
}

func (c *controller) ReportInUse(_ context.Context, names []v1.UniqueVolumeName) ([]v1.UniqueVolumeName, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.reports = append(c.reports, names)
	}
	return names, c.err
}

func (c *controller) set(attached map[v1.UniqueVolumeName]string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached, c.err = attached, err
}

// took returns the reports since the last call.
func (c *controller) took() [][]v1.UniqueVolumeName {
	c.mu.Lock()
	defer c.mu.Unlock()
	reports := c.reports
	c.reports = nil
	return slices.CompactFunc(reports, slices.Equal)
}

// attaching returns a node with a volume attached by a controller, with the group 77.
func attaching(t *testing.T, f func(*nodetest.Node, *controller)) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{}
		plugin := volumetest.NewPlugin(volumetest.Options{Shared: true, Staged: true, Attachable: true, Folders: true,
			Supports: func(s volumemanager.Spec) bool { return s.PV != nil }})
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.VolumePlugins = append(o.VolumePlugins, plugin)
			o.Cluster.Attachments = c
			o.Cluster.Claims = volumemanager.ClaimsFunc(func(context.Context, *v1.Pod, v1.Volume) (volumemanager.Spec, error) {
				return volumemanager.Spec{PV: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}}, GID: "77"}, nil
			})
		}})
		f(n, c)
		require.Empty(t, plugin.Violations())
	})
}

// If the node's attach limit is exceeded, the pod fails, so that its controller creates a
// replacement for another node.
func TestAPodForAFullNodeIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := volumetest.NewPlugin(volumetest.Options{Shared: true, Staged: true, Attachable: true, Folders: true,
			Supports: func(s volumemanager.Spec) bool { return s.PV != nil }, Exhausted: func() bool { return true }})
		var mu sync.Mutex
		var rejected []string
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.VolumePlugins = append(o.VolumePlugins, plugin)
			o.Cluster.Attachments = &controller{}
			o.Cluster.Claims = volumemanager.ClaimsFunc(func(context.Context, *v1.Pod, v1.Volume) (volumemanager.Spec, error) {
				return volumemanager.Spec{PV: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}}}, nil
			})
			o.Observer.PodRejected = func(r feature.Refusal) {
				mu.Lock()
				defer mu.Unlock()
				rejected = append(rejected, r.Pod.Name+" "+r.Reason)
			}
		}})
		n.Apply(nodetest.Pod("web", nodetest.Container("c"), claiming))
		time.Sleep(5 * time.Minute)
		n.Settle()
		status := n.Status("web")
		assert.Equal(t, v1.PodFailed, status.Phase)
		assert.Equal(t, "VolumeAttachmentLimitExceeded", status.Reason)
		assert.Contains(t, status.Message, "Pod was rejected: Node has reached its volume attachment limit")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []string{"web VolumeAttachmentLimitExceeded"}, rejected)
		require.Empty(t, plugin.Violations())
	})
}

func claiming(p *v1.Pod) {
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
}

func TestAttachProtocol(t *testing.T) {
	attaching(t, func(n *nodetest.Node, c *controller) {
		var groups []int64
		n.World.Script(fake.Target{Container: "c"}, fake.Script{Output: func(spec runtime.ContainerSpec) []fake.Line {
			groups = spec.SupplementalGroups
			return nil
		}})
		in := []v1.UniqueVolumeName{attachedName}
		began := time.Now()
		n.Apply(nodetest.Pod("web", nodetest.Container("c"), claiming))
		n.Settle()
		assert.Equal(t, [][]v1.UniqueVolumeName{nil, in}, c.took(), "at the start, and when the pod came")
		assert.Equal(t, v1.PodPending, n.Status("web").Phase)

		c.set(map[v1.UniqueVolumeName]string{attachedName: ""}, nil)
		object := &v1.Node{Status: v1.NodeStatus{VolumesInUse: in}}
		n.Agent.NodeChanged(object)
		n.Settle()
		assert.Equal(t, v1.PodRunning, n.Status("web").Phase)
		assert.Less(t, time.Since(began), time.Second, "nothing waits for a poll")
		assert.Equal(t, []int64{77}, groups, "the volume's group is the container's")
		assert.Empty(t, c.took())

		n.Agent.NodeChanged(&v1.Node{})
		n.Settle()
		assert.Equal(t, [][]v1.UniqueVolumeName{in}, c.took(), "somebody else's list is not left there")

		n.RestartAgent()
		for _, report := range c.took() {
			assert.Equal(t, in, report, "never empty while the volume is mounted")
		}

		c.set(nil, errors.New("away"))
		n.Apply()
		time.Sleep(2 * time.Minute)
		assert.Empty(t, n.Agent.Pods(), "to unmount, nobody has to be asked")
		assert.Empty(t, c.took())
		c.set(nil, nil)
		time.Sleep(time.Minute)
		assert.Equal(t, [][]v1.UniqueVolumeName{nil}, c.took())
	})
}

func TestTokensNeedASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		_, err := n.Agent.Token(t.Context(), projected.TokenRequest{})
		require.ErrorIs(t, err, volumes.ErrNoTokens)
		asked := 0
		n = nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Cluster.Tokens = tokenSource(func() projected.Token {
				asked++
				return projected.Token{Value: "t", Expires: time.Now().Add(time.Hour)}
			})
		}})
		for range 3 {
			token, err := n.Agent.Token(t.Context(), projected.TokenRequest{PodUID: "u"})
			require.NoError(t, err)
			require.Equal(t, "t", token.Value)
		}
		require.Equal(t, 1, asked, "from the cache")
	})
}

type tokenSource func() projected.Token

func (f tokenSource) Token(context.Context, projected.TokenRequest) (projected.Token, error) {
	return f(), nil
}
