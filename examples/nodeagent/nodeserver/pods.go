// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Pods serves /pods, a v1.PodList of the pods that pods returns. The pods are not changed.
func Pods(pods func() []*v1.Pod) Group {
	return get("/pods", func(w http.ResponseWriter, _ *http.Request) { writePods(w, pods()) })
}

// RunningPods serves /runningpods/, a v1.PodList of the pods with a running container in the
// runtime. A pod of the list has a name, a namespace, a UID, and the names and images of its running
// containers.
func RunningPods(list func(context.Context, runtime.ListOptions) ([]*runtime.PodStatus, error)) Group {
	return get("/runningpods/{$}", func(w http.ResponseWriter, r *http.Request) {
		statuses, err := list(r.Context(), runtime.ListOptions{RunningOnly: true})
		if err != nil {
			http.Error(w, fmt.Sprintf("list the pods of the runtime: %v", err), http.StatusInternalServerError)
			return
		}
		var pods []*v1.Pod
		for _, status := range statuses {
			if pod := runningPod(status); len(pod.Spec.Containers) > 0 {
				pods = append(pods, pod)
			}
		}
		writePods(w, pods)
	})
}

func runningPod(status *runtime.PodStatus) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: status.Namespace, Name: status.Name, UID: status.UID}}
	for _, c := range status.Running() {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
	}
	return pod
}

// writePods writes a PodList pod by pod, so that only a single encoded pod is in memory.
func writePods(w http.ResponseWriter, pods []*v1.Pod) {
	w.Header().Set("Content-Type", "application/json")
	between := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`
	for _, pod := range pods {
		text, err := json.Marshal(pod)
		if err != nil {
			continue // a pod that was decoded can be encoded
		}
		if _, err := fmt.Fprintf(w, "%s%s", between, text); err != nil {
			return // the client has left
		}
		between = ","
	}
	if len(pods) > 0 {
		between = ""
	}
	_, _ = fmt.Fprint(w, between+"]}")
}
