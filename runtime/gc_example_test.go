// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

func Example_planGC() {
	plan := runtime.PlanGC(runtime.GCInput{
		Query: runtime.GCQuery{Fate: func(uid types.UID) runtime.PodFate {
			if uid == "old" {
				return runtime.PodGone
			}
			return runtime.PodLives
		}},
		Now: gcNow(),
		Pods: gcPods(
			"web s2+ s1- main=running@1/s2 main=exited@2/s2 main=exited@9/s1",
			"old s3- main=exited@5/s3",
		),
		Logs:  []runtime.LogFolder{{Name: "default_old_old", UID: "old"}},
		Links: []runtime.LogLink{{Name: "old_default_main-old.main.5.log", ContainerID: "old.main.5"}},
	})
	for _, action := range plan {
		fmt.Println(action)
	}
	// Output:
	// RemoveContainer main t://old.main.5 of pod old: the pod is gone
	// RemoveContainer main t://web.main.9 of pod web: more than 1 ended instances of the container
	// RemovePodSandbox s1 of pod web: a newer sandbox has taken its place
	// RemovePodSandbox s3 of pod old: the pod is gone
	// RemovePodLogs default_old_old: the pod is gone
	// RemoveLogLink old_default_main-old.main.5.log: its log file is gone
}
