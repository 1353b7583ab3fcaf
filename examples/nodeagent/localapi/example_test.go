// SPDX-License-Identifier: Apache-2.0

package localapi_test

import (
	"fmt"
	"net/http/httptest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
)

func Example() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	api, err := localapi.New(localapi.Options{NodeName: "gw-17", Pods: func() []*v1.Pod { return []*v1.Pod{pod} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/namespaces/default/pods/app", nil))
	fmt.Print(answer.Code, " ", answer.Body)
	// Output:
	// 404 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"app\" not found","reason":"NotFound","details":{"name":"app","kind":"pods"},"code":404}
}
