// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// Folder is a folder of manifests that a source reads, see package podconfig/file. The files of the API are
// named NAMESPACE.NAME.applied.yaml or .json. Other files are read and never written.
type Folder struct {
	// Path is the absolute path of the folder. Required.
	Path string
	// Decoder decodes the manifests of pods as the source does. Required, and strict.
	Decoder *manifest.Decoder
	// Decode decodes files with several documents or other kinds, as the source does. Defaults to nil:
	// a file has a single Pod.
	Decode func(data []byte, o manifest.Origin) ([]*v1.Pod, error)
}

// Ends of the names of the API's files.
const appliedYAML, appliedJSON = ".applied.yaml", ".applied.json"

// stored is the manifest of a pod.
type stored struct {
	path string
	data []byte
	pod  *v1.Pod
	ours bool // written by the API
}

// find returns the manifest of a pod, or nil. The name is the full name.
func (f *Folder) find(namespace, name string) (*stored, error) {
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, fmt.Errorf("folder of manifests: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("folder of manifests: %w", err)
	}
	var found *stored
	for _, e := range entries {
		path := filepath.Join(f.Path, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		data, err := atomicfile.Read(root, e.Name(), f.Decoder.Limit())
		if err != nil {
			continue // the source reports the file
		}
		pods, err := f.decodeAll(data, path)
		at := slices.IndexFunc(pods, func(pod *v1.Pod) bool { return err == nil && pod.Namespace == namespace && pod.Name == name })
		if at < 0 {
			continue
		}
		pod := pods[at]
		one := &stored{path: path, data: data, pod: pod}
		one.ours = strings.HasSuffix(path, appliedYAML) || strings.HasSuffix(path, appliedJSON)
		if found == nil || one.ours {
			found = one
		}
	}
	return found, nil
}

func (f *Folder) decode(data []byte, path string) (*v1.Pod, error) {
	return f.Decoder.Pod(data, manifest.Origin{Kind: manifest.OriginFile, Location: path})
}

// write replaces or creates the manifest of a pod. The content is checked as the source will check
// it. old is the manifest that is replaced, or nil. With dry, nothing is written.
func (f *Folder) write(data []byte, old *stored, dry bool) (*v1.Pod, error) {
	end := appliedYAML
	if json.Valid(data) {
		end = appliedJSON
	}
	pod, err := f.decode(data, filepath.Join(f.Path, "new"+end))
	if err != nil {
		return nil, invalid(err, data)
	}
	suffix := "-" + strings.ToLower(string(f.Decoder.NodeName))
	path := filepath.Join(f.Path, pod.Namespace+"."+strings.TrimSuffix(pod.Name, suffix)+end)
	if old != nil {
		if old.pod.Namespace != pod.Namespace || old.pod.Name != pod.Name {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the manifest is of pod %s/%s", pod.Namespace, pod.Name))
		}
		path = old.path
	}
	if pod, err = f.decode(data, path); err != nil { // the path is part of the pod's identity
		return nil, invalid(err, data)
	}
	if dry {
		return pod, nil
	}
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	defer root.Close()
	if err := atomicfile.Write(root, filepath.Base(path), data); err != nil {
		return nil, fmt.Errorf("write the manifest %s: %w", path, err)
	}
	return pod, nil
}

// remove removes a manifest of the API.
func (f *Folder) remove(s *stored) error {
	root, err := os.OpenRoot(f.Path)
	if err == nil {
		defer root.Close()
		err = root.Remove(filepath.Base(s.path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the manifest: %w", err)
	}
	return nil
}

// invalid returns the Status of a manifest that cannot be used. An unknown field is named in the words
// of an API server.
func invalid(err error, data []byte) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: err.Error()}
	problems, ok := errors.AsType[*manifest.Error](err)
	if !ok {
		return &apierrors.StatusError{ErrStatus: status}
	}
	var texts []string
	for _, p := range problems.Problems {
		if p.Err == nil { // a field that is unknown, repeated, or of a wrong type
			status.Code, status.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
		}
		if json.Valid(data) {
			p.Position = manifest.Position{} // the user wrote another text
		}
		text := p.String()
		if rest, unknown := strings.CutPrefix(p.Text, unknownField); unknown {
			text = strings.TrimPrefix(p.Position.String()+": ", ": ") + unknownField + fmt.Sprintf(" %q", p.Field) + rest
		}
		texts = append(texts, text)
	}
	status.Message = strings.Join(texts[:min(len(texts), maxProblems)], "; ")
	if status.Code == http.StatusBadRequest {
		status.Message = "strict decoding error: " + status.Message
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// unknownField begins the text of a problem with an unknown field.
const unknownField = "unknown field"

// maxProblems is the number of problems in an answer.
const maxProblems = 10

// serverFields are the fields of metadata that only a server sets.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"}

// clean returns an object without the fields that only a server sets, as indented JSON.
func clean(object map[string]any) ([]byte, error) {
	delete(object, "status")
	if meta, ok := object["metadata"].(map[string]any); ok {
		for _, name := range serverFields {
			delete(meta, name)
		}
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(object)
	return out.Bytes(), err
}
