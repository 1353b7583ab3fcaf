// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// fullName returns the name of the pod of a manifest.
func (a *API) fullName(short string) string { return strings.TrimSuffix(short, a.Suffix) + a.Suffix }

// serveCreate writes the manifest of a new pod.
func (a *API) serveCreate(w http.ResponseWriter, r *http.Request) {
	object, data, err := a.readObject(r)
	if err != nil {
		refuse(w, err)
		return
	}
	name := nameOf(object)
	if name == "" {
		refuse(w, apierrors.NewBadRequest("metadata.name is required; generateName is not supported"))
		return
	}
	old, err := a.Manifests.find(r.PathValue("namespace"), a.fullName(name))
	if err == nil && (old != nil || a.find(r.PathValue("namespace"), name) != nil) {
		err = apierrors.NewAlreadyExists(v1.Resource("pods"), name)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	a.store(w, r, data, nil, http.StatusCreated)
}

// serveReplace replaces the manifest of a pod.
func (a *API) serveReplace(w http.ResponseWriter, r *http.Request) {
	old, err := a.applied(r)
	if err == nil && old == nil {
		err = apierrors.NewNotFound(v1.Resource("pods"), r.PathValue("name"))
	}
	var data []byte
	if err == nil {
		_, data, err = a.readObject(r)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	a.store(w, r, data, old, http.StatusOK)
}

// servePatch changes the manifest of a pod. A server-side apply replaces or creates the manifest.
func (a *API) servePatch(w http.ResponseWriter, r *http.Request) {
	patchType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	old, err := a.applied(r)
	if err == nil && old == nil && patchType != string(types.ApplyYAMLPatchType) {
		err = apierrors.NewNotFound(v1.Resource("pods"), r.PathValue("name"))
	}
	var data []byte
	if err == nil && patchType == string(types.ApplyYAMLPatchType) {
		_, data, err = a.readObject(r)
	} else if err == nil {
		data, err = patched(r, old, types.PatchType(patchType))
	}
	if err != nil {
		refuse(w, err)
		return
	}
	code := http.StatusOK
	if old == nil {
		code = http.StatusCreated
	}
	a.store(w, r, data, old, code)
}

// applied returns the manifest that a request changes, or nil if the node has no such pod. A pod
// from elsewhere is a conflict.
func (a *API) applied(r *http.Request) (*stored, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	old, err := a.Manifests.find(namespace, a.fullName(name))
	switch {
	case err != nil:
		return nil, err
	case old != nil && !old.ours:
		return nil, apierrors.NewConflict(v1.Resource("pods"), name, fmt.Errorf("its manifest is %s: edit that file", old.path))
	case old == nil && a.find(namespace, name) != nil:
		return nil, apierrors.NewConflict(v1.Resource("pods"), name, fmt.Errorf("it does not come from %s: change the pod where it was created", a.Manifests.Path))
	}
	return old, nil
}

// readObject reads a Pod in JSON or YAML. data is the text to store: a text in YAML stays
// unchanged.
func (a *API) readObject(r *http.Request) (object map[string]any, data []byte, err error) {
	data, err = readBody(r, a.Manifests.Decoder.Limit())
	if err != nil {
		return nil, nil, err
	}
	if object, err = singleObject(data, a.Manifests.Decoder.Limit()); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if name, asked := nameOf(object), r.PathValue("name"); name != "" && asked != "" && a.fullName(name) != a.fullName(asked) {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, asked))
	}
	if meta, ok := object["metadata"].(map[string]any); ok && meta["namespace"] == nil {
		meta["namespace"] = r.PathValue("namespace")
		if r.PathValue("namespace") != v1.NamespaceDefault {
			data, err = clean(object)
			return object, data, err
		}
	} else if ok && meta["namespace"] != r.PathValue("namespace") {
		return nil, nil, apierrors.NewBadRequest("the namespace of the object is not that of the request")
	}
	if json.Valid(data) {
		data, err = clean(object)
	}
	return object, data, err
}

// singleObject decodes a text with one object, in JSON or YAML.
func singleObject(data []byte, limit int64) (object map[string]any, err error) {
	documents, err := manifest.Objects(data, limit)
	switch {
	case err != nil:
		return nil, err
	case len(documents) != 1:
		return nil, fmt.Errorf("%d documents: want a single Pod", len(documents))
	}
	err = json.Unmarshal(documents[0], &object)
	return object, err
}

func readBody(r *http.Request, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, limit))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return data, nil
}

func nameOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}

// patched returns a manifest after a patch.
func patched(r *http.Request, old *stored, patchType types.PatchType) ([]byte, error) {
	text, err := readBody(r, manifest.DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, apierrors.NewBadRequest("the patch is no JSON object")
	}
	object, err := singleObject(old.data, manifest.DefaultMaxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be patched: %w", old.path, err)
	}
	switch patchType {
	case types.StrategicMergePatchType:
		object, err = strategicpatch.StrategicMergeMapPatch(object, patch, v1.Pod{})
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case types.MergePatchType:
		merge(object, patch)
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", v1.Resource("pods"), r.PathValue("name"), "want a merge patch, a strategic merge patch or apply", 0, true)
	}
	return clean(object)
}

// merge applies a JSON merge patch (RFC 7386).
func merge(object, patch map[string]any) {
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isObject:
			below, ok := object[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				object[key] = below
			}
			merge(below, inner)
		default:
			object[key] = value
		}
	}
}

// arrival is how long an answer waits for the pod of a new manifest.
const arrival = 5 * time.Second

// store writes a manifest, and answers with its pod as soon as the node has the pod.
func (a *API) store(w http.ResponseWriter, r *http.Request, data []byte, old *stored, code int) {
	dry := isDryRun(r)
	if old != nil && sameObject(old.data, data) {
		data = old.data
		dry = true // nothing to write
	}
	pod, err := a.Manifests.write(data, old, dry)
	if err != nil {
		refuse(w, err)
		return
	}
	if !dry {
		pod = a.awaitArrival(r.Context(), pod, old)
	} else if live := a.find(pod.Namespace, pod.Name); live != nil && !isDryRun(r) {
		pod = live
	}
	shown := a.show(pod)
	shown.Name = a.short(shown.Name) // a manifest that the node does not have yet has no source
	shown.TypeMeta = a.pods.typeMeta()
	if o := a.view.get(a.pods, types.NamespacedName{Namespace: shown.Namespace, Name: shown.Name}); o != nil {
		shown.ResourceVersion = o.GetResourceVersion()
	}
	answer(w, code, shown)
}

// awaitArrival waits until the node has a new pod or a new version of a pod. With transactional
// updates, the node has a new version only after its images have been fetched: see arrival.
func (a *API) awaitArrival(ctx context.Context, pod *v1.Pod, old *stored) *v1.Pod {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	defer a.view.watch(a.pods)()
	const hash = "kubernetes.io/config.hash"
	live := pod
	_ = a.await(ctx, func(pods []*v1.Pod) bool { // after a timeout, the answer is the manifest
		for _, known := range pods {
			if known.Namespace == pod.Namespace && known.Name == pod.Name && known.Annotations[hash] == pod.Annotations[hash] {
				live = known
				return true
			}
		}
		return false
	})
	return live
}

// sameObject reports whether two manifests differ in their text only.
func sameObject(a, b []byte) bool {
	x, errX := singleObject(a, manifest.DefaultMaxBytes)
	y, errY := singleObject(b, manifest.DefaultMaxBytes)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
