// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

func Example() {
	clients := clienttest.New(configMap("config", "1")) // in your program: kubernetes.NewForConfig
	changed := make(chan objects.Ref, 1)

	source, err := volumeapi.NewObjects(volumeapi.ObjectsOptions{
		Client:  volumeapi.FromCore(clients.CoreV1()),
		Changed: func(ref objects.Ref) { changed <- ref }, // manager.Refresh(ref.UsedBy)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- source.Run(ctx) }()

	source.Register(pod("web", "config")) // its first volume is made of "config"
	for range 2 {
		cm, err := source.ConfigMap(ctx, "ns", "config") // as the plugins do
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("k =", cm.Data["k"])
		if cm.Data["k"] == "1" {
			_, err = clients.CoreV1().ConfigMaps("ns").Update(ctx, configMap("config", "2"), metav1.UpdateOptions{})
			fmt.Println("changed:", (<-changed).Name, err)
		}
	}
	source.Unregister("web")
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// k = 1
	// changed: config <nil>
	// k = 2
	// ended: <nil>
}
