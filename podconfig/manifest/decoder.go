// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultMaxBytes is the default size limit of a manifest in bytes. As in the kubelet, a manifest
// of exactly 10 MiB is rejected.
const DefaultMaxBytes = 10 << 20

// Decoder decodes manifests into pods. Do not change the fields during use. The methods are safe for
// concurrent use if the functions in the fields are.
type Decoder struct {
	// NodeName is the node of the pods. It is stored in spec.nodeName, and is in lower case the
	// suffix of the pod's name. Required.
	NodeName types.NodeName
	// Default fills in the API server's defaults. When Default is called, the pod has its final name,
	// namespace and node. Defaults to SetDefaults.
	Default func(*v1.Pod)
	// Validate checks the pod after Default. Its errors are shown to users and should not contain
	// secret values. Defaults to Validate.
	Validate func(*v1.Pod) field.ErrorList
	// Policy rejects valid but unwanted pods. Defaults to NoAPIReferences.
	Policy func(*v1.Pod) error
	// UID returns the UID of a pod whose manifest has no uid. Defaults to ContentUID; see also
	// PathUID.
	UID func(Manifest) types.UID
	// Strict makes unknown fields and duplicate keys errors. Otherwise they are warnings: as in the
	// kubelet, unknown fields are ignored, and the last of equal keys is used.
	Strict bool
	// MultiDocument lets Pods accept several YAML documents. Otherwise several documents are an
	// error.
	MultiDocument bool
	// OnlyHostNetwork rejects a manifest with "hostNetwork: false", for a node without pod
	// networks. A manifest without the field is accepted. Validate and Policy cannot distinguish
	// the two manifests by their v1.Pod.
	OnlyHostNetwork bool
	// MaxBytes is the size limit in bytes: a manifest of MaxBytes or more is rejected. Defaults to
	// DefaultMaxBytes.
	MaxBytes int64
	// Warn receives a warning for each unknown field, duplicate key and removed annotation of a
	// manifest that has no error so far. A warning is a single line without values, beginning with
	// its position. Warn is called within Pod and Pods. Defaults to no-op.
	Warn func(o Origin, warning string)
}

// OriginKind is the kind of source of a manifest. Callers with their own sources may use further
// values.
type OriginKind string

// Kinds of origins. As in the kubelet, only pods of OriginFile tolerate every NoExecute taint.
const (
	OriginFile OriginKind = "file"
	OriginURL  OriginKind = "url"
)

// Origin is the source of a manifest. It is part of a pod's identity and must be the same after a
// restart.
type Origin struct {
	Kind OriginKind
	// Location is an absolute file path or a URL.
	Location string
}

// Manifest is the input of a UID function.
type Manifest struct {
	// Canonical is the manifest before defaults as JSON without white space, with sorted keys.
	// Fields set by a server (status, resourceVersion, …) are removed.
	Canonical []byte
	// Namespace and Name are the pod's final namespace and name, with default and suffix.
	Namespace, Name string
	NodeName        types.NodeName
	Origin          Origin
}

// Check returns nil, or an error that wraps ErrDecoder and names the invalid field.
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

// Limit returns the size in bytes from which manifests are rejected.
func (d *Decoder) Limit() int64 {
	if d.MaxBytes == 0 {
		return DefaultMaxBytes
	}
	return d.MaxBytes
}

// Pod decodes a manifest with exactly one pod. The caller owns the pod; data is not kept. The error
// is an error of Check, or an *Error with all problems of the manifest.
func (d *Decoder) Pod(data []byte, o Origin) (*v1.Pod, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	docs, err := readDocuments(data, 1, d.Limit())
	if err != nil {
		return nil, err
	}
	pod, problems := d.onlyPod(&docs[0], o)
	if problems != nil {
		return nil, &Error{Problems: problems}
	}
	return pod, nil
}

// onlyPod decodes a document that has to be of kind Pod.
func (d *Decoder) onlyPod(doc *document, o Origin) (*v1.Pod, []Problem) {
	problems := checkKind(doc.root, "Pod")
	var pod *v1.Pod
	if problems == nil {
		pod, problems = d.pod(doc, o)
	}
	return pod, doc.locate(problems)
}

// pod decodes a document of kind Pod.
func (d *Decoder) pod(doc *document, o Origin) (*v1.Pod, []Problem) {
	if problems := countContainers(doc.root); problems != nil {
		return nil, problems
	}
	warnings := dropForeign(doc.root)
	shape := conform(doc.root, reflect.TypeFor[v1.Pod]())
	problems := shape.wrong
	if d.Strict {
		problems = slices.Concat(shape.unknown, doc.duplicates, problems)
	} else {
		warnings = slices.Concat(warnings, shape.unknown, doc.duplicates)
	}
	if d.OnlyHostNetwork && lookup(doc.root, "spec")["hostNetwork"] == false {
		problems = append(problems, Problem{Field: "spec.hostNetwork",
			Text: "this node has no pod networks, every pod is on the host's: set it to true or remove it"})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if d.Warn != nil {
		for _, w := range doc.locate(warnings) {
			d.Warn(o, w.String())
		}
	}
	canonical, err := canonicalJSON(doc.root)
	if err != nil {
		return nil, []Problem{{Text: ErrSyntax.Error() + ": it cannot be written as JSON", Err: ErrSyntax}}
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(canonical, pod); err != nil {
		return nil, []Problem{{Text: "the document does not fit a Pod"}} // conform's invariant is broken
	}
	if problems := d.finish(pod, canonical, o); problems != nil {
		return nil, problems
	}
	return pod, nil
}

func (d *Decoder) finish(pod *v1.Pod, canonical []byte, o Origin) []Problem {
	if pod.Name == "" {
		return fieldProblems(field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "every pod needs a name")})
	}
	setStatic(pod, d.NodeName, o)
	if errs := d.identify(pod, canonical, o); errs != nil {
		return fieldProblems(errs)
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
		return fieldProblems(errs)
	}
	policy := d.Policy
	if policy == nil {
		policy = NoAPIReferences
	}
	if err := policy(pod); err != nil {
		return []Problem{policyProblem(err)}
	}
	return nil
}

// policyProblem returns the problem for a policy error, with the field of a wrapped
// *ReferenceError.
func policyProblem(err error) Problem {
	p := Problem{Text: err.Error(), Err: err}
	if reference, ok := errors.AsType[*ReferenceError](err); ok {
		p.Field = reference.Field
	}
	return p
}

// templates are the kinds with a pod template for a controller.
var templates = []string{"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}

// checkKind reports a document of another kind as a single problem instead of dozens of unknown
// fields.
func checkKind(root any, kind string) []Problem {
	m, ok := root.(map[string]any)
	notPod := func(field, format string, args ...any) []Problem {
		return []Problem{{Field: field, Text: ErrNotPod.Error() + ": " + fmt.Sprintf(format, args...), Err: ErrNotPod}}
	}
	if !ok {
		return notPod("", "the document is %s", describe(root))
	}
	gotKind, _ := m["kind"].(string)
	gotVersion, _ := m["apiVersion"].(string)
	switch {
	case gotKind == "" && gotVersion == "":
		return notPod("", "apiVersion and kind are missing: begin with \"apiVersion: v1\" and \"kind: %s\"", kind)
	case gotKind == "":
		return notPod("", "kind is missing: add \"kind: %s\"", kind)
	case slices.Contains(templates, gotKind):
		return notPod("kind", "its kind is %q, not %q: no controller runs here, write the pod of its template", gotKind, kind)
	case gotKind != kind:
		return notPod("kind", "its kind is %q, not %q", shorten(gotKind), kind)
	case gotVersion == "":
		return notPod("", "apiVersion is missing: add \"apiVersion: v1\"")
	case gotVersion != "v1":
		return notPod("apiVersion", "its apiVersion is %q, not \"v1\"", shorten(gotVersion))
	}
	return nil
}

func canonicalJSON(root any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
