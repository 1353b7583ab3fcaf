// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/services"
)

// Example reads the Services of a cluster and prints variables that a container gets.
func Example() {
	clients := clienttest.New(&v1.Service{ // in a program: kubernetes.NewForConfig
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-db"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []v1.ServicePort{{Name: "sql", Port: 5432, Protocol: v1.ProtocolTCP}}},
	})
	known, err := services.New(services.Options{Client: clients.CoreV1().Services("")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- known.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", Annotations: map[string]string{"kubernetes.io/config.source": "api"},
	}}
	pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web:1"}}
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/var/log/pods", Services: known.For})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec, _, err := generator.Container(ctx, pod, runtime.Ref{}, runtime.ContainerInput{}) // waits for the first list
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range spec.Env[:3] {
		fmt.Println(v.Name + "=" + v.Value)
	}
	cancel()
	fmt.Println(err, <-ended)
	// Output:
	// CART_DB_SERVICE_HOST=10.96.0.7
	// CART_DB_SERVICE_PORT=5432
	// CART_DB_SERVICE_PORT_SQL=5432
	// <nil> <nil>
}
