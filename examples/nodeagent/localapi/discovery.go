// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"net/http"
	goruntime "runtime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

const metricsGroup, metricsVersion = "metrics.k8s.io", "metrics.k8s.io/v1beta1"

// discoveryRoutes serves the documents that tell clients of versions and resources.
func (a *API) discoveryRoutes() {
	serve := func(path string, document any) {
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, document) })
	}
	serve("/version", a.versionInfo())
	serve("/api", &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	serve("/api/v1", a.resources())
	groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{}}
	if a.Usage != nil {
		only := metav1.GroupVersionForDiscovery{GroupVersion: metricsVersion, Version: "v1beta1"}
		group := metav1.APIGroup{Name: metricsGroup, Versions: []metav1.GroupVersionForDiscovery{only}, PreferredVersion: only}
		groups.Groups = append(groups.Groups, group)
		group.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
		serve("/apis/"+metricsGroup, &group)
		serve("/apis/"+metricsVersion, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: metricsVersion,
			APIResources: []metav1.APIResource{
				{Name: "nodes", SingularName: "", Kind: "NodeMetrics", Verbs: []string{"get", "list"}},
				{Name: "pods", SingularName: "", Kind: "PodMetrics", Namespaced: true, Verbs: []string{"get", "list"}},
			},
		})
	}
	serve("/apis", groups)
	const document = "/openapi/v3/api/v1"
	serve("/openapi/v3", map[string]any{"paths": map[string]any{
		"api/v1": map[string]string{"serverRelativeURL": document + "?hash=1"},
	}})
	serve(document, openAPI())
}

// resources returns the resources of the core group.
func (a *API) resources() *metav1.APIResourceList {
	l := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1"}
	for _, k := range a.kinds {
		l.APIResources = append(l.APIResources, metav1.APIResource{
			Name: k.plural, SingularName: k.singular, Kind: k.name, Namespaced: k.namespaced, Verbs: k.verbs, ShortNames: k.short, Categories: k.categories,
		})
	}
	if a.Kubelet != nil {
		for _, subresource := range []string{"attach", "exec", "log", "portforward"} {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: "pods/" + subresource, Kind: "Pod", Namespaced: true, Verbs: []string{"create", "get"}})
		}
	}
	return l
}

func (a *API) versionInfo() *version.Info {
	numbers := strings.SplitN(strings.TrimPrefix(a.Version, "v"), ".", 3)
	info := &version.Info{
		Major: numbers[0], GitVersion: a.Version, GitTreeState: "clean", GoVersion: goruntime.Version(),
		Compiler: goruntime.Compiler, Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
	}
	if len(numbers) > 1 {
		info.Minor = numbers[1]
	}
	return info
}

// openAPI returns the smallest document with which kubectl lets the server validate: the document
// lists the kinds with the parameters fieldValidation and dryRun.
func openAPI() any {
	parameter := func(name string) map[string]any {
		return map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string", "uniqueItems": true}}
	}
	patch := map[string]any{
		"x-kubernetes-action":             "patch",
		"x-kubernetes-group-version-kind": map[string]string{"group": "", "version": "v1", "kind": "Pod"},
		"parameters":                      []any{parameter("dryRun"), parameter("fieldValidation")},
		"responses":                       map[string]any{},
	}
	return map[string]any{
		"openapi": "3.0.0", "info": map[string]string{"title": "node agent", "version": "v1"},
		"paths": map[string]any{"/api/v1/namespaces/{namespace}/pods/{name}": map[string]any{"patch": patch}},
	}
}
