// SPDX-License-Identifier: Apache-2.0

package statusreport_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager/statusreport"
)

// The status of a pod changes twice before the uplink is there. The last status is sent.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	reports, err := statusreport.New(statusreport.Options{Send: func(_ context.Context, r statusreport.Report) error {
		fmt.Println(r.NamespacedName, r.Status.Phase)
		stop()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "default", "web"
	reports.Set(pod, v1.PodStatus{Phase: v1.PodPending})
	reports.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	_ = reports.Run(ctx)
	// Output: default/web Running
}
