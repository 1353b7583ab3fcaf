// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func Example() {
	dec := &manifest.Decoder{NodeName: "Edge-17", Strict: true}
	from := manifest.Origin{Kind: manifest.OriginFile, Location: "/etc/pods/web.yaml"}

	pod, err := dec.Pod([]byte(`
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: localhost/web:1
    livenessProbe: {httpGet: {port: 8080}}
`), from)
	if err != nil {
		fmt.Println(err)
		return
	}
	main := pod.Spec.Containers[0]
	fmt.Println(pod.Namespace, pod.Name, pod.UID)
	fmt.Println(pod.Spec.RestartPolicy, main.ImagePullPolicy, main.LivenessProbe.HTTPGet.Path, main.LivenessProbe.PeriodSeconds)

	_, err = dec.Pod([]byte("apiVersion: v1\nkind: Pod\nspec: {contaners: [], hostNetwork: 1}"), from)
	fmt.Println(err)
	// Output:
	// default web-edge-17 0e0877ebb2c8051293d2d16799e87c9f
	// Always IfNotPresent / 10
	// 3:8: spec.contaners: unknown field, did you mean "containers"?; 3:36: spec.hostNetwork: expected true or false, got a number
}
