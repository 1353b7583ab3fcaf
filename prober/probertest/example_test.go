// SPDX-License-Identifier: Apache-2.0

package probertest_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

// Example scripts a container that is alive and not ready, and looks at the attempts. In a test a
// prober.Prober makes the attempts.
func Example() {
	handler := &probertest.Handler{}
	handler.Set("default/web", "main", prober.Readiness, probertest.Fail())
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for _, kind := range []prober.Type{prober.Liveness, prober.Readiness} {
		outcome, err := handler.Probe(context.Background(), prober.Target{
			Pod: pod, Container: &v1.Container{Name: "main"}, Probe: &v1.Probe{}, Type: kind,
		})
		fmt.Println(kind, outcome.Verdict, err)
	}
	fmt.Println("attempts:", len(handler.Calls()))
	// Output:
	// Liveness success <nil>
	// Readiness failure <nil>
	// attempts: 2
}
