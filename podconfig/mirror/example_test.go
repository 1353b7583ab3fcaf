// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

func Example() {
	server := &api{pods: map[string]*v1.Pod{}} // in your program: clientset.CoreV1()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-17", UID: "node-uid"}}
	mirrors, err := mirror.NewClient(mirror.Config{
		Pods: func(namespace string) mirror.Writer { return server.in(namespace) },
		Node: func(context.Context) (*v1.Node, error) { return node, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	index := mirror.NewIndex()

	// The file source adds a static pod.
	web := static("web-edge-17", "static-uid", "hash-1")
	pods, _ := index.Apply(podconfig.Update{Op: podconfig.OpAdd, Source: podconfig.SourceFile, Pods: []*v1.Pod{web}})
	for _, p := range pods {
		pod, known := index.Pair(p)
		fmt.Println(mirrors.Reconcile(context.Background(), pod, known))
	}
	// The API source adds its mirror pod.
	m := server.pods["ns/web-edge-17"]
	pods, touched := index.Apply(podconfig.Update{Op: podconfig.OpAdd, Source: podconfig.SourceAPI, Pods: []*v1.Pod{m}})
	fmt.Println("to run:", len(pods), "to sync:", touched[0].Name)
	fmt.Println("status of", m.UID, "is that of", index.Translate(m.UID))
	// The manifest is edited.
	index.Remove(web.UID)
	edited := static("web-edge-17", "static-uid-2", "hash-2")
	index.Put(edited)
	pod, known := index.Pair(edited)
	fmt.Println(mirrors.Reconcile(context.Background(), pod, known))
	// Output:
	// created <nil>
	// to run: 0 to sync: web-edge-17
	// status of api-1 is that of static-uid
	// replaced <nil>
}
