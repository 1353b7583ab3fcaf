// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

func examplePod(name string, uid types.UID, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image}}},
	}
}

// A program may be a source itself. Here it submits four changes, and the consumer receives the
// updates.
func Example() {
	store, err := podconfig.NewStore(podconfig.StoreOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	program := podconfig.SourceFunc("program", func(ctx context.Context, out podconfig.Sink) error {
		for _, change := range []podconfig.Change{
			podconfig.Snapshot(examplePod("web", "1", "web:1"), examplePod("db", "2", "db:1")),
			podconfig.Upsert(examplePod("web", "1", "web:2")),
			podconfig.Upsert(examplePod("db", "3", "db:1")),
			podconfig.Remove("1"),
		} {
			if err := out.Submit(ctx, change); err != nil {
				return err
			}
		}
		cancel()
		return nil
	})
	ready := podconfig.NewReadiness("program")
	handle := func(_ context.Context, u podconfig.Update) error {
		for _, p := range u.Pods {
			fmt.Println(u.Op, podconfig.FullName(p), p.UID, p.Spec.Containers[0].Image)
		}
		ready.Consumed(u)
		return nil
	}
	// A slow consumer passes the Push of a Queue instead, and reads the queue.
	if err := podconfig.Run(ctx, store, handle, program); err != nil {
		fmt.Println(err)
	}
	fmt.Println("ready:", ready.AllReady())
	for source, p := range store.Pods() {
		fmt.Println(source, "holds", podconfig.FullName(p))
	}

	// Output:
	// ADD web_default 1 web:1
	// ADD db_default 2 db:1
	// UPDATE web_default 1 web:2
	// REMOVE db_default 2 db:1
	// ADD db_default 3 db:1
	// REMOVE web_default 1 web:2
	// ready: true
	// program holds db_default
}
