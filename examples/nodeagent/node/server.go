// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// Handler serves the endpoints of the kubelet's read-only port, and additional health checks:
//
//   - /livez: the loop turns. An agent that fails this check needs a restart.
//   - /readyz, /healthz: the loop turns, and the runtime answers a listing that starts with the
//     request. A runtime that hangs is reported within ten seconds. A restart of the agent does not
//     help the runtime.
//   - /pods: a v1.PodList with live statuses, without the values of environment variables.
//
// There is no authentication: bind the server to loopback, and wrap the handler in CheckHost. A
// program can show environment variables to authenticated clients, such as those known by the peer
// credentials of a unix socket. Such a program calls Pods.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", a.serveHealth(a.loopTurns))
	mux.HandleFunc("GET /readyz", a.serveHealth(a.loopTurns, a.health.check))
	mux.HandleFunc("GET /healthz", a.serveHealth(a.loopTurns, a.health.check))
	mux.HandleFunc("GET /pods", a.servePods)
	return mux
}

func (a *Agent) servePods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range a.Pods() {
		list.Items = append(list.Items, redacted(pod))
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&list); err != nil {
		a.host.Log.Debug("a client of /pods went away")
	}
}

// Pods returns every pod that the agent knows, with its live status, sorted by namespace, name and
// UID. The pods are shared and must not be written.
func (a *Agent) Pods() []*v1.Pod { return a.host.Pods() }

// Changed receives a value after the result of Pods may have changed. The channel is for a single
// receiver.
func (a *Agent) Changed() <-chan struct{} { return a.state.changed }

// Pulls returns the pulls of images under way.
func (a *Agent) Pulls(ctx context.Context) []runtime.Pull { return a.host.Manager.Pulls(ctx) }

// Workers yields the state of the worker of each pod, including pods that have left their source.
// For a pod that does not end, WorkerInfo.LastError gives the reason.
func (a *Agent) Workers() iter.Seq2[types.UID, podworkers.WorkerInfo] { return a.host.Workers.All() }

// NodeChanged passes the current Node object of the API server to the agent. Call it after every
// change of the Node, so that attached volumes are used without delay and pods are admitted by the
// current labels and taints. NodeChanged does not block and only reads the node.
func (a *Agent) NodeChanged(node *v1.Node) {
	if a.parts.volumes != nil {
		a.parts.volumes.NodeChanged(node)
	}
	if a.parts.gate != nil {
		a.parts.gate.NodeChanged(node)
	}
}

// Refresh updates the volumes of running pods that use an object. It fits objects.Options.Changed.
// Environment variables keep the values from the start of the container.
func (a *Agent) Refresh(r objects.Ref) {
	if a.parts.volumes != nil {
		a.parts.volumes.RefreshObject(r)
	}
}

// VolumeFolders returns the names of the folders of a pod's mounted volumes, by their names in the pod
// spec. The folder of a claim's volume has the name of the PersistentVolume. The caller owns the map.
func (a *Agent) VolumeFolders(uid types.UID) map[string]string {
	if a.parts.volumes == nil {
		return nil
	}
	names := map[string]string{}
	for name, v := range a.parts.volumes.GetMountedVolumesForPod(uid) {
		if !v.Block {
			names[name] = v.Inner
		}
	}
	return names
}

// Token returns a service account token of a pod from the agent's cache, for volume plugins that
// pass tokens to drivers. When a token is due for renewal, the agent refreshes the pod's volumes.
func (a *Agent) Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error) {
	if a.parts.volumes == nil {
		return projected.Token{}, volumes.ErrNoTokens
	}
	return a.parts.volumes.Token(ctx, r)
}

// RemoveUnusedImages removes every image that is neither in use nor too young, however empty the disk
// is. Without Options.ImageGC no image is removed.
func (a *Agent) RemoveUnusedImages(ctx context.Context) error {
	if a.parts.images == nil {
		return nil
	}
	return a.parts.images.RemoveUnused(ctx)
}

// Images returns the images on the node in the form of the Node status. The list is as old as the
// collector's last pass. It is empty without Options.ImageGC.
func (a *Agent) Images() []v1.ContainerImage {
	if a.parts.images == nil {
		return nil
	}
	return a.parts.images.List()
}
