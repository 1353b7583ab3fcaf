// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func projecting(sources ...v1.VolumeProjection) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "mixed", VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: sources},
		}})
	}
}

// A pod with references that no source of the node can resolve is refused at once, with all such
// references, and without retries.
func TestSourcesThatAreNotThereAreRefused(t *testing.T) {
	sources := []v1.VolumeProjection{
		{DownwardAPI: &v1.DownwardAPIProjection{}},
		{ConfigMap: &v1.ConfigMapProjection{Optional: new(true)}},
		{Secret: &v1.SecretProjection{}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "ca"}},
		{PodCertificate: &v1.PodCertificateProjection{SignerName: "s.example/x", KeyPath: "key"}},
	}
	const at = "spec.volumes[0].projected.sources"
	always := at + `[3].serviceAccountToken ("mixed": tokens need an API server), ` +
		at + `[4].clusterTrustBundle ("mixed": this agent has no trust bundles), ` +
		at + `[5].podCertificate ("mixed": this agent has no certificates issued)`
	without := at + `[1].configMap ("mixed": no such objects here), ` + at + `[2].secret ("mixed": no such objects here), `
	for name, want := range map[string]string{"with objects": always, "without": without + always} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
					if name != "without" {
						store, err := objects.NewStore(objects.Options{})
						require.NoError(t, err)
						o.Objects = store
					}
				}})
				n.Apply(nodetest.Pod("web", nodetest.Container("c"), projecting(sources...)))
				time.Sleep(time.Hour)
				status := n.Status("web")
				require.Equal(t, v1.PodFailed, status.Phase)
				require.Equal(t, admission.ReasonUnsupported, status.Reason)
				require.Equal(t, "Pod was rejected: the fake runtime cannot honour: "+want, status.Message)
				require.Equal(t, []string{"web"}, eventsOf(n, admission.ReasonUnsupported), "once")
			})
		})
	}
}

// A pod of another operating system has the kubelet's reason, also if the backend refuses its fields.
func TestAPodOfAnotherSystemHasTheReasonOfTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.Apply(nodetest.Pod("web", nodetest.Container("c"), func(p *v1.Pod) {
			p.Spec.OS = &v1.PodOS{Name: v1.Windows}
			p.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.org/i:1"}}}}
		}))
		time.Sleep(time.Minute)
		status := n.Status("web")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, admission.ReasonOS, status.Reason, status.Message)
	})
}

// The containers' own, too, by their names.
func TestWhatContainersCannotHaveIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.Apply(nodetest.Pod("web", nodetest.Container("ok"), nodetest.Container("c"), func(p *v1.Pod) {
			c := &p.Spec.Containers[1]
			c.Env = []v1.EnvVar{{Name: "F", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "f", Key: "k"}}}}
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
			p.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.org/i:1"}}}}
		}))
		time.Sleep(time.Hour)
		status := n.Status("web")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "Pod was rejected: the fake runtime cannot honour: "+
			"spec.containers[1].env[0].valueFrom.fileKeyRef (container c: no variables are read from files), "+
			"spec.containers[1].lifecycle.postStart.tcpSocket (container c: Kubernetes has no tcpSocket hooks), "+
			`spec.volumes[0].image ("i": the runtime has no images)`, status.Message)
		require.Empty(t, starts(n, "ok"))
	})
}
