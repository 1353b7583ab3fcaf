// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// healthTimeout is how long the loop may take to answer /healthz.
const healthTimeout = 2 * time.Second

// Handler serves what the kubelet's read-only port does: /healthz, which asks
// the loop itself and whether the runtime answers, and /pods, a v1.PodList with
// live statuses.
//
// The pods are shown as they are, environment included: bind it to loopback.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.serveHealth)
	mux.HandleFunc("GET /pods", a.servePods)
	return mux
}

func (a *Agent) serveHealth(w http.ResponseWriter, r *http.Request) {
	if a.stopping.Load() {
		fmt.Fprint(w, "ok, stopping")
		return
	}
	if err := a.tracker.Health(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if err := a.Alive(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}

func (a *Agent) servePods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range a.Pods() {
		list.Items = append(list.Items, *pod)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&list); err != nil {
		a.log.Debug("a client of /pods went away")
	}
}

// Pods returns every pod the agent knows, with its live status, by namespace
// and name. The pods are shared and must not be written.
func (a *Agent) Pods() []*v1.Pod { return a.statuses.all() }

// Changed receives a value after Pods would return something new. It has one
// reader.
func (a *Agent) Changed() <-chan struct{} { return a.statuses.changed }
