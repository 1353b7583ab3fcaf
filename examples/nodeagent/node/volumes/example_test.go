// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// Example uses an objects.Store as node.Options.Objects.
func Example() {
	store, err := objects.NewStore(objects.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	store.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: map[string]string{"port": "80"}})
	var known volumes.Objects = store
	object, err := known.ConfigMap(context.Background(), "default", "web")
	fmt.Println(object.Data["port"], err)
	// Output: 80 <nil>
}
