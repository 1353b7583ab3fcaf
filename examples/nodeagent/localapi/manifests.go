// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// manifestEnd is the end of the name of a file that serveManifest has written.
const manifestEnd = ".manifest.yaml"

// ManifestPath is the path under which a manifest of any kinds is written by PUT and removed by DELETE.
// kubectl does not know it.
func ManifestPath(name string) string { return "/keelson/v1/manifests/" + name }

var manifests = schema.GroupResource{Resource: "manifests"}

// serveManifest writes a file with objects of any kinds.
func (a *API) serveManifest(w http.ResponseWriter, r *http.Request) {
	path, err := a.Manifests.pathOf(r.PathValue("name"))
	var data []byte
	if err == nil {
		data, err = readBody(r, a.Manifests.Decoder.Limit())
	}
	if err == nil {
		if _, problem := a.Manifests.decodeAll(data, path); problem != nil {
			err = invalid(problem, data)
		}
	}
	if err == nil && !isDryRun(r) {
		err = atomicfile.WritePath(path, data)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, success())
}

// serveRemoveManifest removes a file of serveManifest, and answers when its pods have ended.
func (a *API) serveRemoveManifest(w http.ResponseWriter, r *http.Request) {
	path, err := a.Manifests.pathOf(r.PathValue("name"))
	var pods []*v1.Pod
	if err == nil {
		var data []byte
		if data, err = atomicfile.ReadPath(path, a.Manifests.Decoder.Limit()); err == nil {
			pods, _ = a.Manifests.decodeAll(data, path) // without a valid content, there is nothing to wait for
		}
	}
	if err == nil && !isDryRun(r) {
		defer a.view.watch(a.pods)()
		err = os.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = apierrors.NewNotFound(manifests, r.PathValue("name"))
	}
	if err == nil && !isDryRun(r) {
		err = a.await(r.Context(), func(known []*v1.Pod) bool {
			return !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return hasUID(known, pod.UID) })
		})
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, success())
}

func success() *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
}

// pathOf returns the path of a file of serveManifest.
func (f *Folder) pathOf(name string) (string, error) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 || len(name) > maxManifestName {
		return "", apierrors.NewBadRequest(fmt.Sprintf("the name of a manifest has at most %d lower-case letters, digits, '-' and '.'", maxManifestName))
	}
	return filepath.Join(f.Path, name+manifestEnd), nil
}

// maxManifestName leaves room for the end and for a temporary file.
const maxManifestName = 200

// decodeAll decodes a file as the source does.
func (f *Folder) decodeAll(data []byte, path string) ([]*v1.Pod, error) {
	if f.Decode == nil {
		pod, err := f.decode(data, path)
		return []*v1.Pod{pod}, err
	}
	return f.Decode(data, manifest.Origin{Kind: manifest.OriginFile, Location: path})
}
