// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// A server of /pods and /healthz. A real node gives an Authenticator for certificates or tokens in
// place of Anonymous, an Authorizer that asks the API server, and serves over TLS.
func Example() {
	guard, err := nodeserver.NewGuard(nodeserver.GuardOptions{Node: "edge-1", Anonymous: true, Authorizer: nodeserver.AlwaysAllow{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	server, err := nodeserver.New(nodeserver.Options{
		Guard: guard,
		Groups: []nodeserver.Group{
			nodeserver.Health(),
			nodeserver.Pods(func() []*v1.Pod { return []*v1.Pod{web} }),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	for _, path := range []string{"/healthz", "/pods", "/exec/default/web/c"} {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
	}
	// Output:
	// /healthz 200
	// /pods 200
	// /exec/default/web/c 404
}
