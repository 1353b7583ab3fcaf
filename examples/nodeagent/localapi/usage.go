// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Usage is a measurement of the node and its pods.
type Usage struct {
	At time.Time
	// Node is the usage of the whole machine: cpu and memory.
	Node v1.ResourceList
	// Containers is the usage of containers, by the UID of their pod and their name.
	Containers map[types.UID]map[string]v1.ResourceList
}

// measured is an object of metrics.k8s.io: NodeMetrics or PodMetrics.
type measured struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Timestamp         metav1.Time         `json:"timestamp"`
	Window            metav1.Duration     `json:"window"`
	Usage             v1.ResourceList     `json:"usage,omitempty"`
	Containers        []measuredContainer `json:"containers,omitempty"`
}

type measuredContainer struct {
	Name  string          `json:"name"`
	Usage v1.ResourceList `json:"usage"`
}

func (a *API) metricsRoutes() {
	const base = "GET /apis/" + metricsVersion
	a.mux.HandleFunc(base+"/nodes", a.serveUsage(nil))
	a.mux.HandleFunc(base+"/nodes/{name}", a.serveUsage(nil))
	a.mux.HandleFunc(base+"/pods", a.serveUsage(a.pods))
	a.mux.HandleFunc(base+"/namespaces/{namespace}/pods", a.serveUsage(a.pods))
	a.mux.HandleFunc(base+"/namespaces/{namespace}/pods/{name}", a.serveUsage(a.pods))
}

// serveUsage serves the usage of pods, or of the node if k is nil.
func (a *API) serveUsage(k *kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		usage, err := a.Usage(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		l := list[measured]{TypeMeta: metav1.TypeMeta{APIVersion: metricsVersion, Kind: "NodeMetricsList"}, Items: []measured{}}
		if k == nil {
			l.Items = append(l.Items, a.measured("NodeMetrics", metav1.ObjectMeta{Name: a.NodeName}, usage))
			l.Items[0].Usage = usage.Node
		} else {
			l.Kind = "PodMetricsList"
			matches, err := selection(r, k)
			if err != nil {
				refuse(w, err)
				return
			}
			l.Items = append(l.Items, a.measuredPods(usage, matches)...)
		}
		name := r.PathValue("name")
		if name == "" {
			answer(w, http.StatusOK, &l)
			return
		}
		for i := range l.Items {
			if l.Items[i].Name == name || l.Items[i].Name == a.short(name) {
				answer(w, http.StatusOK, &l.Items[i])
				return
			}
		}
		refuse(w, apierrors.NewNotFound(schema.GroupResource{Group: metricsGroup, Resource: "pods"}, name))
	}
}

func (a *API) measuredPods(usage Usage, matches func(object) bool) (all []measured) {
	pods, _ := a.view.current(a.pods)
	for _, o := range pods {
		containers := usage.Containers[o.GetUID()]
		if len(containers) == 0 || !matches(o) {
			continue
		}
		m := a.measured("PodMetrics", metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels()}, usage)
		for _, name := range containerNames(o.(*v1.Pod)) {
			if used := containers[name]; used != nil {
				m.Containers = append(m.Containers, measuredContainer{name, used})
			}
		}
		all = append(all, m)
	}
	return all
}

func (a *API) measured(kind string, meta metav1.ObjectMeta, usage Usage) measured {
	meta.CreationTimestamp = metav1.NewTime(usage.At)
	return measured{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsVersion, Kind: kind}, ObjectMeta: meta,
		Timestamp: metav1.NewTime(usage.At), Window: metav1.Duration{Duration: 10 * time.Second},
	}
}
