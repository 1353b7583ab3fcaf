// SPDX-License-Identifier: Apache-2.0

package statuspatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
)

// Example patches the status of one pod. In an agent a statusmanager.Manager does.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "1234"}, "status": {"phase": "Running"}}`)
	}))
	defer server.Close()
	patcher, err := statuspatch.New(statuspatch.Options{Config: &rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref := statusmanager.PodRef{Namespace: "default", Name: "web", UID: "1234"}
	pod, err := patcher.PatchStatus(context.Background(), ref, []byte(`{"status": {"phase": "Running"}}`))
	fmt.Println(pod.Status.Phase, err)
	// Output:
	// PATCH /api/v1/namespaces/default/pods/web/status
	// Running <nil>
}
