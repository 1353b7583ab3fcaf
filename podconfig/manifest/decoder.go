// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultMaxBytes is the size from which on a manifest is refused: one of exactly 10 MiB is, as in the kubelet.
const DefaultMaxBytes = 10 << 20

// Decoder makes pods of manifests. Its fields must not be changed once it is in use; it is then safe for concurrent use
// if its functions are.
type Decoder struct {
	// NodeName is the node the pods run on: it becomes spec.nodeName as it is and the suffix of the pod's name in lower
	// case. Required.
	NodeName types.NodeName
	// Default fills in the fields that the API server would default. It gets the pod with its final name, namespace and
	// node. Defaults to SetDefaults.
	Default func(*v1.Pod)
	// Validate checks the defaulted pod. Its errors are shown to users: they should not repeat secret values. Defaults to
	// Validate.
	Validate func(*v1.Pod) field.ErrorList
	// Policy refuses pods that are valid but not wanted. Defaults to NoAPIReferences.
	Policy func(*v1.Pod) error
	// UID identifies a pod whose manifest does not hold a uid. Defaults to ContentUID; see also PathUID.
	UID func(Manifest) types.UID
	// Strict makes unknown fields and duplicate keys errors. Otherwise they are warnings, unknown fields are ignored and
	// the last of equal keys counts, as in the kubelet.
	Strict bool
	// MultiDocument lets Pods accept several YAML documents. Otherwise they are an error.
	MultiDocument bool
	// MaxBytes is the size from which on a manifest is refused. Defaults to DefaultMaxBytes.
	MaxBytes int64
	// Warn is told about each unknown field, duplicate key and removed annotation of a manifest that was accepted so far,
	// in one line without values. It is called within Pod and Pods. Defaults to nothing.
	Warn func(o Origin, warning string)
}

// OriginKind tells how a manifest reached the node. Callers with sources of their own may use other values.
type OriginKind string

// Kinds of origins. Only pods of OriginFile get the toleration of every NoExecute taint, as in the kubelet.
const (
	OriginFile OriginKind = "file"
	OriginURL  OriginKind = "url"
)

// Origin is where a manifest came from. It is part of a pod's identity, so it must be the same after a restart.
type Origin struct {
	Kind OriginKind
	// Location is an absolute file path or a URL.
	Location string
}

// Manifest is what a UID function identifies.
type Manifest struct {
	// Canonical is the manifest as JSON without white space, keys sorted, before defaults, without what it holds about a
	// pod's life on a server (status, resourceVersion, …).
	Canonical []byte
	// Namespace and Name are those of the pod, defaulted and with suffix.
	Namespace, Name string
	NodeName        types.NodeName
	Origin          Origin
}

// Check returns an error that wraps ErrDecoder and names the bad field, or nil.
func (d *Decoder) Check() error {
	if d == nil {
		return fmt.Errorf("%w: it is nil", ErrDecoder)
	}
	if faults := validation.IsDNS1123Subdomain(strings.ToLower(string(d.NodeName))); len(faults) > 0 {
		return fmt.Errorf("%w: NodeName %q: %s", ErrDecoder, shorten(string(d.NodeName)), oneLine(faults[0]))
	}
	if d.MaxBytes < 0 {
		return fmt.Errorf("%w: MaxBytes %d is negative", ErrDecoder, d.MaxBytes)
	}
	return nil
}

// Limit returns the number of bytes from which on a manifest is refused.
func (d *Decoder) Limit() int64 {
	if d.MaxBytes == 0 {
		return DefaultMaxBytes
	}
	return d.MaxBytes
}

// Pod decodes a manifest that holds exactly one pod. The pod is the caller's; data is not kept. The errors are those of
// Check, the sentinels of this package, *StructureError, *InvalidError, and what Policy returns.
func (d *Decoder) Pod(data []byte, o Origin) (*v1.Pod, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	docs, err := readDocuments(data, 1, d.Limit())
	if err != nil {
		return nil, err
	}
	if err := checkKind(docs[0].root, "Pod"); err != nil {
		return nil, err
	}
	return d.pod(docs[0], o)
}

// pod turns a document that says it is a pod into one.
func (d *Decoder) pod(doc document, o Origin) (*v1.Pod, error) {
	warnings := dropForeign(doc.root)
	shape := conform(doc.root, reflect.TypeFor[v1.Pod]())
	problems := shape.wrong
	if d.Strict {
		problems = append(append(shape.unknown, doc.duplicates...), problems...)
	} else {
		warnings = append(append(warnings, shape.unknown...), doc.duplicates...)
	}
	if len(problems) > 0 {
		return nil, &StructureError{Problems: problems}
	}
	if d.Warn != nil {
		for _, w := range warnings {
			d.Warn(o, w)
		}
	}
	canonical, err := canonicalJSON(doc.root)
	if err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(canonical, pod); err != nil {
		return nil, &StructureError{Problems: []string{"the document does not fit a Pod"}} // conform's invariant is broken
	}
	return d.finish(pod, canonical, o)
}

func (d *Decoder) finish(pod *v1.Pod, canonical []byte, o Origin) (*v1.Pod, error) {
	if pod.Name == "" {
		return nil, &InvalidError{Errs: field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "name is needed for the pod")}}
	}
	setStatic(pod, d.NodeName, o)
	if err := d.identify(pod, canonical, o); err != nil {
		return nil, err
	}
	if d.Default != nil {
		d.Default(pod)
	} else {
		SetDefaults(pod)
	}
	validate := d.Validate
	if validate == nil {
		validate = Validate
	}
	if errs := validate(pod); len(errs) > 0 {
		return nil, &InvalidError{Errs: errs}
	}
	policy := d.Policy
	if policy == nil {
		policy = NoAPIReferences
	}
	if err := policy(pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// checkKind makes "not a Pod" one sentence instead of dozens of unknown fields.
func checkKind(root any, kind string) error {
	m, ok := root.(map[string]any)
	if !ok {
		return fmt.Errorf("%w: the document is %s", ErrNotPod, describe(root))
	}
	gotKind, _ := m["kind"].(string)
	gotVersion, _ := m["apiVersion"].(string)
	switch {
	case gotKind == "" && gotVersion == "":
		return fmt.Errorf("%w: apiVersion and kind are missing", ErrNotPod)
	case gotKind != kind && gotKind != "":
		return fmt.Errorf("%w: its kind is %q", ErrNotPod, shorten(gotKind))
	case gotKind == "":
		return fmt.Errorf("%w: kind is missing", ErrNotPod)
	case gotVersion != "v1":
		return fmt.Errorf("%w: its apiVersion is %q, not \"v1\"", ErrNotPod, shorten(gotVersion))
	}
	return nil
}

func canonicalJSON(root any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("%w: it cannot be written as JSON", ErrSyntax)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
