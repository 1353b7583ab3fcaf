// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// selection returns the filter of a request: namespace, label selector and field selector.
func selection(r *http.Request, k *kind) (func(object) bool, error) {
	query := r.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err))
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
	}
	known := k.fields(nil)
	for _, requirement := range byField.Requirements() {
		if !known.Has(requirement.Field) {
			return nil, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	namespace := r.PathValue("namespace")
	return func(o object) bool {
		return (namespace == "" || o.GetNamespace() == namespace) &&
			byLabel.Matches(labels.Set(o.GetLabels())) && (byField.Empty() || byField.Matches(k.fields(o)))
	}, nil
}

// list is the answer to a list request.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

func (a *API) serveList(k *kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		matches, err := selection(r, k)
		if err != nil {
			refuse(w, err)
			return
		}
		if watched := r.URL.Query().Get("watch"); watched == "true" || watched == "1" {
			a.serveWatch(w, r, k, matches)
			return
		}
		items, version := a.view.current(k)
		shown := list[object]{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: k.name + "List"}, Items: []object{}}
		shown.ResourceVersion = strconv.FormatUint(version, 10)
		for _, o := range items {
			if matches(o) {
				shown.Items = append(shown.Items, o)
			}
		}
		if wantsTable(r) {
			t := newTable(k, shown.Items, r.URL.Query().Get("includeObject"))
			t.ResourceVersion = shown.ResourceVersion
			answer(w, http.StatusOK, t)
			return
		}
		answer(w, http.StatusOK, &shown)
	}
}

func (a *API) serveGet(k *kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		o := a.view.get(k, types.NamespacedName{Namespace: r.PathValue("namespace"), Name: name})
		if o == nil && k == a.pods {
			o = a.view.get(k, types.NamespacedName{Namespace: r.PathValue("namespace"), Name: a.short(name)})
		}
		switch {
		case o == nil:
			refuse(w, apierrors.NewNotFound(schema.GroupResource{Resource: k.plural}, name))
		case wantsTable(r):
			answer(w, http.StatusOK, newTable(k, []object{o}, r.URL.Query().Get("includeObject")))
		default:
			answer(w, http.StatusOK, o)
		}
	}
}

// watchEvent is a line of a watch.
type watchEvent struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// serveWatch sends changes until the client leaves or the asked time has passed.
func (a *API) serveWatch(w http.ResponseWriter, r *http.Request, k *kind, matches func(object) bool) {
	defer a.view.watch(k)()
	query := r.URL.Query()
	items, version := a.view.current(k)
	sendItems := query.Get("sendInitialEvents") == "true"
	if from := query.Get("resourceVersion"); !sendItems && from != "" && from != "0" {
		since, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			refuse(w, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: %q is no version", from)))
			return
		}
		version, items = since, nil
	}
	send := newWatchWriter(w, r, k)
	for _, o := range items {
		if matches(o) {
			send(watch.Added, o)
		}
	}
	if sendItems {
		mark := metav1.PartialObjectMetadata{TypeMeta: k.typeMeta()}
		mark.ResourceVersion = strconv.FormatUint(version, 10)
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		send(watch.Bookmark, &mark)
	}
	end := endOf(query)
	for {
		changes, last, next, ok := a.view.since(k, version)
		if !ok {
			send(watch.Error, statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", version))))
			return
		}
		for _, c := range changes {
			if event, o := c.event(matches); event != "" {
				send(event, o)
			}
		}
		version = last
		select {
		case <-next:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// endOf returns a channel that receives a value when the asked time has passed.
func endOf(query url.Values) <-chan time.Time {
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		return time.After(time.Duration(seconds) * time.Second)
	}
	return nil
}

// newWatchWriter begins the answer to a watch, and returns a function that sends an event. A client
// that has left ends the request's context.
func newWatchWriter(w http.ResponseWriter, r *http.Request, k *kind) func(watch.EventType, any) {
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	_ = flush.Flush()
	table, include := wantsTable(r), r.URL.Query().Get("includeObject")
	return func(event watch.EventType, what any) {
		if o, ok := what.(object); ok && table && event != watch.Bookmark {
			t := newTable(k, []object{o}, include)
			t.ResourceVersion = o.GetResourceVersion()
			what = t
		}
		_ = out.Encode(watchEvent{event, what})
		_ = flush.Flush()
	}
}

// wantsTable reports whether a client prefers a table.
func wantsTable(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return strings.Contains(first, "as=Table") && strings.Contains(first, "application/json")
}
