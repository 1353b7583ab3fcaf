// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// serveDelete removes the applied manifest of a pod. A pod without an applied manifest is restarted.
func (a *API) serveDelete(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	pod := a.find(namespace, name)
	if pod == nil && a.Manifests == nil {
		refuse(w, apierrors.NewNotFound(v1.Resource("pods"), name))
		return
	}
	var applied *stored
	if a.Manifests != nil {
		full := a.fullName(name)
		if pod != nil {
			full = pod.Name
		}
		var err error
		if applied, err = a.Manifests.find(namespace, full); err != nil {
			refuse(w, err)
			return
		}
	}
	dryRun := isDryRun(r)
	switch {
	case applied != nil && applied.ours && dryRun, pod != nil && dryRun:
		answer(w, http.StatusOK, success())
	case applied != nil && applied.ours:
		a.removeManifest(w, pod, applied)
	case pod == nil:
		refuse(w, apierrors.NewNotFound(v1.Resource("pods"), name))
	default:
		if applied != nil {
			warn(w, fmt.Sprintf("the manifest of the pod is %s: the pod was restarted; remove the file to delete the pod", applied.path))
		} else {
			warn(w, "the manifest of the pod was not applied here: the pod was restarted")
		}
		a.answerRestart(w, r, pod)
	}
}

// removeManifest removes a file, and answers with the pod that now ends.
func (a *API) removeManifest(w http.ResponseWriter, pod *v1.Pod, applied *stored) {
	if err := a.Manifests.remove(applied); err != nil {
		refuse(w, err)
		return
	}
	if pod == nil {
		pod = applied.pod
	}
	shown := a.show(pod)
	shown.TypeMeta = a.pods.typeMeta()
	now := metav1.Now()
	shown.DeletionTimestamp, shown.DeletionGracePeriodSeconds = &now, pod.Spec.TerminationGracePeriodSeconds
	answer(w, http.StatusOK, shown)
}

// serveRestart restarts a pod, and answers when the old pod has ended.
func (a *API) serveRestart(w http.ResponseWriter, r *http.Request) {
	pod := a.find(r.PathValue("namespace"), r.PathValue("name"))
	if pod == nil {
		refuse(w, apierrors.NewNotFound(v1.Resource("pods"), r.PathValue("name")))
		return
	}
	a.answerRestart(w, r, pod)
}

// endedUID is the UID in the answer to a deletion that restarts. The new pod may have the UID of the
// old pod. kubectl waits for the end of the pod with the answered UID.
const endedUID = "ended"

func (a *API) answerRestart(w http.ResponseWriter, r *http.Request, pod *v1.Pod) {
	if err := a.restart(r.Context(), pod); err != nil {
		if errors.Is(err, errNotRestartable) {
			err = apierrors.NewForbidden(v1.Resource("pods"), pod.Name, fmt.Errorf("%w: delete the pod where it was created", err))
		}
		refuse(w, err)
		return
	}
	shown := a.show(pod)
	shown.TypeMeta, shown.UID = a.pods.typeMeta(), endedUID
	answer(w, http.StatusOK, shown)
}

// restart stops a pod, waits for its end and lets the pod start again.
func (a *API) restart(ctx context.Context, pod *v1.Pod) error {
	if a.Restarts == nil {
		return errNotRestartable
	}
	defer a.view.watch(a.pods)()
	release, err := a.Restarts.take(ctx, pod)
	if err != nil {
		return err
	}
	defer release()
	return a.await(ctx, func(pods []*v1.Pod) bool { return !hasUID(pods, pod.UID) })
}

func hasUID(pods []*v1.Pod, uid types.UID) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.UID == uid })
}

// await waits until the pods of the node satisfy a condition. The caller watches the pods.
func (a *API) await(ctx context.Context, holds func([]*v1.Pod) bool) error {
	for {
		_, version := a.view.current(a.pods)
		if holds(a.Options.Pods()) {
			return nil
		}
		_, _, next, _ := a.view.since(a.pods, version)
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// warn adds a warning that kubectl prints.
func warn(w http.ResponseWriter, text string) {
	w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
}

func isDryRun(r *http.Request) bool { return r.URL.Query().Get("dryRun") == metav1.DryRunAll }
