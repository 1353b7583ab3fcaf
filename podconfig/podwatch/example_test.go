// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

func Example() {
	clients := clienttest.New(pod("web"), onNode(pod("other"), "m")) // in your program: kubernetes.NewForConfig

	src, err := podwatch.New(podwatch.Config{
		Pods:             clients.CoreV1().Pods(""),
		NodeName:         "n",
		WithoutWatchList: true, // only for the fake
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := podconfig.NewStore(podconfig.StoreOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = podconfig.Run(ctx, store, func(_ context.Context, u podconfig.Update) error {
		for _, p := range u.Pods {
			fmt.Println(u.Op, p.Namespace+"/"+p.Name)
		}
		cancel() // enough for an example
		return nil
	}, src)
	fmt.Println("ended:", err)
	// Output:
	// ADD ns/web
	// ended: <nil>
}
