// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Options configure an API.
type Options struct {
	// NodeName is the name of the node. Required.
	NodeName string
	// Pods returns the pods of the node with their statuses. The pods are shared and not written.
	// Required.
	Pods func() []*v1.Pod
	// Ending returns the pods that are being stopped for good. Defaults to none.
	Ending func() map[types.UID]bool
	// Node returns the Node object. The result is owned by the API. Defaults to nil: no nodes.
	Node func() *v1.Node
	// Events has the events of the node. Defaults to nil: no events.
	Events *EventLog
	// Usage measures the node. Defaults to nil: no metrics.k8s.io.
	Usage func(context.Context) (Usage, error)
	// Kubelet serves the paths /containerLogs, /exec, /attach and /portForward of a kubelet, such as
	// a nodeserver.Server. Defaults to nil: no logs and no streams.
	Kubelet http.Handler
	// Manifests is the folder that receives applied manifests. Defaults to nil: pods cannot be
	// applied.
	Manifests *Folder
	// Restarts restarts pods. Defaults to nil: pods without an applied manifest cannot be deleted.
	Restarts *Restarts
	// Suffix is the end of the names of static pods, such as "-gw-17", that is left out. Defaults to
	// "": names are shown in full.
	Suffix string
	// Version is the version of Kubernetes that the API tells, such as "v1.36.3". Defaults to v1.36.0.
	Version string
}

// API answers requests about a node. It is an http.Handler without authentication.
type API struct {
	Options
	kinds   []*kind
	pods    *kind
	view    *view
	mux     *http.ServeMux
	news    signal.Signal
	started time.Time
}

// New validates opts. Errors name the field. New starts no goroutine.
func New(opts Options) (*API, error) {
	switch {
	case opts.NodeName == "":
		return nil, errors.New("localapi: Options.NodeName is required")
	case opts.Pods == nil:
		return nil, errors.New("localapi: Options.Pods is required")
	}
	opts.Version = cmp.Or(opts.Version, "v1.36.0")
	now := time.Now()
	// Versions must not repeat after a restart: they begin at the time in microseconds.
	a := &API{Options: opts, view: newView(uint64(now.UnixMicro())), news: signal.New(), started: now}
	if opts.Events != nil {
		opts.Events.onChange(a.Poke)
	}
	a.kinds = a.allKinds()
	a.routes()
	return a, nil
}

// Poke tells that the result of Options.Pods or Options.Node may have changed. It does not block.
func (a *API) Poke() { a.news.Notify() }

// calm is the shortest time between two looks at the pods for watches.
const calm = 20 * time.Millisecond

// Run passes changes to watches until ctx ends, and returns nil.
func (a *API) Run(ctx context.Context) error {
	for {
		select {
		case <-a.news:
		case <-ctx.Done():
			return nil
		}
		for _, k := range a.kinds {
			if a.view.isWatched(k) {
				a.view.refresh(k)
			}
		}
		_ = retry.Sleep(ctx, calm)
	}
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

func (a *API) routes() {
	a.mux = http.NewServeMux()
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, errNoResource) })
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	}
	a.discoveryRoutes()
	for _, k := range a.kinds {
		base := "/api/v1/"
		if k.namespaced {
			a.mux.HandleFunc("GET "+base+k.plural, a.serveList(k))
			base += "namespaces/{namespace}/"
		}
		a.mux.HandleFunc("GET "+base+k.plural, a.serveList(k))
		a.mux.HandleFunc("GET "+base+k.plural+"/{name}", a.serveGet(k))
	}
	const pods = "/api/v1/namespaces/{namespace}/pods"
	if a.Manifests != nil {
		a.mux.HandleFunc("PUT "+ManifestPath("{name}"), a.serveManifest)
		a.mux.HandleFunc("DELETE "+ManifestPath("{name}"), a.serveRemoveManifest)
		a.mux.HandleFunc("POST "+pods, a.serveCreate)
		a.mux.HandleFunc("PUT "+pods+"/{name}", a.serveReplace)
		a.mux.HandleFunc("PATCH "+pods+"/{name}", a.servePatch)
	}
	if a.Manifests != nil || a.Restarts != nil {
		a.mux.HandleFunc("DELETE "+pods+"/{name}", a.serveDelete)
	}
	if a.Restarts != nil {
		a.mux.HandleFunc("POST "+pods+"/{name}/restart", a.serveRestart)
	}
	if a.Kubelet != nil {
		a.mux.HandleFunc("GET "+pods+"/{name}/log", a.serveKubelet("containerLogs"))
		for subresource, path := range map[string]string{"exec": "exec", "attach": "attach", "portforward": "portForward"} {
			a.mux.HandleFunc("GET "+pods+"/{name}/"+subresource, a.serveKubelet(path))
			a.mux.HandleFunc("POST "+pods+"/{name}/"+subresource, a.serveKubelet(path))
		}
	}
	if a.Usage != nil {
		a.metricsRoutes()
	}
}

// short returns the name under which a pod is shown.
func (a *API) short(name string) string { return strings.TrimSuffix(name, a.Suffix) }
