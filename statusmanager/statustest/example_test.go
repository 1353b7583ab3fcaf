// SPDX-License-Identifier: Apache-2.0

package statustest_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Example has an API server refuse the first patch, and prints the requests. In a test a
// statusmanager.Manager makes the requests.
func Example() {
	server, err := statustest.New(statustest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := server.Create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234"}})
	if _, err := server.Inject(statustest.Fault{Nth: 1, Err: apierrors.NewTooManyRequests("later", 3)}); err != nil {
		fmt.Println(err)
		return
	}
	ref := statusmanager.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	for range 2 {
		_, err := server.PatchStatus(context.Background(), ref, []byte(`{"status": {"phase": "Running"}}`))
		fmt.Println("patch:", err)
	}
	fmt.Println(server.Get(pod.UID).Status.Phase, "after", len(server.Journal()), "requests")
	// Output:
	// patch: later
	// patch: <nil>
	// Running after 2 requests
}
