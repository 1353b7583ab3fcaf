// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/podconfig/kinds"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func Example() {
	x := &kinds.Expander{Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true}}
	set, err := x.Expand([]byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: localhost/web:1}]}
`), manifest.Origin{Kind: manifest.OriginFile, Location: "/etc/pods/web.yaml"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pod := range set.Pods {
		fmt.Println(pod.Name, pod.Spec.Containers[0].Image)
	}

	_, err = x.Expand([]byte("apiVersion: networking.k8s.io/v1\nkind: Ingress\n"), manifest.Origin{})
	fmt.Println(err)
	// Output:
	// web-0-edge-17 localhost/web:1
	// web-1-edge-17 localhost/web:1
	// 2:7: kind: Ingress refused: no ingress controller runs here: run a proxy as a pod with a hostPort
}
