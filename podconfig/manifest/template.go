// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Document is an object of a manifest, of any kind. It is not safe for concurrent use.
type Document struct {
	document
	kind, apiVersion string
}

// maxObjects limits the objects of a manifest.
const maxObjects = maxPods

// Documents reads the objects of a manifest of any kinds: its documents, with the items of a List in
// the place of the List. The error is an *Error for a text that cannot be read, a duplicate key, or a
// document without apiVersion or kind. maxBytes is as in Decoder.MaxBytes.
func Documents(data []byte, maxBytes int64) ([]*Document, error) {
	docs, err := readDocuments(data, math.MaxInt-1, maxBytes)
	if err != nil {
		return nil, err
	}
	var all []*Document
	for i := range docs {
		doc := &docs[i]
		if len(doc.duplicates) > 0 {
			return nil, &Error{Problems: doc.locate(doc.duplicates)}
		}
		found, problems := objectsOf(doc)
		if problems != nil {
			return nil, &Error{Problems: problems}
		}
		if all = append(all, found...); len(all) > maxObjects {
			return nil, problem(Position{}, ErrTooLarge, fmt.Sprintf("more than %d objects", maxObjects))
		}
	}
	return all, nil
}

// objectsOf returns a document, or the items of a List.
func objectsOf(doc *document) ([]*Document, []Problem) {
	d, problems := newDocument(*doc)
	if problems != nil {
		return nil, problems
	}
	if d.kind != "List" || d.apiVersion != "v1" {
		return []*Document{d}, nil
	}
	list, problems := rawItems(&d.document)
	if problems != nil {
		return nil, d.locate(problems)
	}
	var all []*Document
	for i, root := range list {
		item, problems := newDocument(document{root: root, nodes: d.parsed(), prefix: joinPath(d.prefix, indexed("items", i))})
		if problems != nil {
			return nil, problems
		}
		if item.kind == "List" {
			return nil, []Problem{item.Problem("kind", "a List inside a List: move its items")}
		}
		all = append(all, item)
	}
	return all, nil
}

func newDocument(doc document) (*Document, []Problem) {
	m, ok := doc.root.(map[string]any)
	if !ok {
		return nil, doc.locate([]Problem{{Text: "expected an object, got " + describe(doc.root)}})
	}
	d := &Document{document: doc}
	d.kind, _ = m["kind"].(string)
	d.apiVersion, _ = m["apiVersion"].(string)
	if d.kind == "" || d.apiVersion == "" {
		return nil, d.locate(checkKind(map[string]any{"kind": d.kind, "apiVersion": d.apiVersion}, "Pod"))
	}
	return d, nil
}

// Kind returns the kind of the object.
func (d *Document) Kind() string { return d.kind }

// APIVersion returns the apiVersion of the object.
func (d *Document) APIVersion() string { return d.apiVersion }

// Problem returns a problem with a field of the object, in the notation of field.Path, with its
// position. Without such a field, the position is that of the nearest enclosing object.
func (d *Document) Problem(field, text string) Problem {
	return d.locate([]Problem{{Field: field, Text: text}})[0]
}

// KeyProblem is Problem with the position of the field's key.
func (d *Document) KeyProblem(field, text string) Problem {
	return d.locate([]Problem{{Field: field, Text: text, isKey: true}})[0]
}

// Decode decodes the object into a pointer to a struct with JSON tags. Unknown fields and wrong types
// are problems. Fields that only a server sets are ignored.
func (d *Document) Decode(into any) []Problem {
	dropForeign(d.root)
	shape := conform(d.root, reflect.TypeOf(into).Elem())
	if problems := append(shape.unknown, shape.wrong...); len(problems) > 0 {
		return d.locate(problems)
	}
	data, err := canonicalJSON(d.root)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return []Problem{d.Problem("", "the document does not fit a "+shorten(d.kind))} // conform's invariant is broken
	}
	return nil
}

// Template says which pod a controller makes of a pod template.
type Template struct {
	// Path has the keys of the template in the object, such as "spec" and "template". An empty path
	// means that the object is a Pod, and the other fields are ignored.
	Path []string
	// Namespace and Name are those of the pod. The suffix of the node is added to the name.
	Namespace, Name string
	// Labels and Annotations are added to those of the template. Annotations of the template win.
	Labels, Annotations map[string]string
	// Owners are the pod's ownerReferences.
	Owners []metav1.OwnerReference
	// Hostname is the pod's hostname unless the template has one.
	Hostname string
	// Volumes are added to the pod's volumes. A volume of the template with the same name is replaced.
	Volumes []v1.Volume
}

// Make decodes a Pod, or makes a pod of a template in an object. The pod is checked and identified as
// by Pod, with the content of the template and t. The fields of problems are those of the object. Make does
// not change the object.
func (d *Decoder) Make(doc *Document, t Template, o Origin) (*v1.Pod, []Problem) {
	if len(t.Path) == 0 {
		return d.onlyPod(&doc.document, o)
	}
	path := ""
	for _, key := range t.Path {
		path = joinPath(path, key)
	}
	root, err := t.tree(lookup(doc.root, t.Path...))
	if err != nil {
		return nil, []Problem{doc.Problem(path, "it cannot be written as JSON")}
	}
	inner := document{root: root, nodes: doc.parsed(), prefix: joinPath(doc.prefix, path)}
	pod, problems := d.pod(&inner, o)
	inner.locate(problems)
	for i := range problems {
		problems[i].Field = joinPath(path, problems[i].Field)
	}
	return pod, problems
}

// tree returns the tree of a pod made of a template.
func (t Template) tree(template map[string]any) (map[string]any, error) {
	metadata, _ := runtime.DeepCopyJSONValue(template["metadata"]).(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = t.Name
	delete(metadata, "namespace")
	if t.Namespace != "" {
		metadata["namespace"] = t.Namespace
	}
	annotations := maps.Clone(t.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return lookup(metadata, "annotations")[key] != nil })
	addTexts(metadata, "labels", t.Labels)
	addTexts(metadata, "annotations", annotations)
	if len(t.Owners) > 0 {
		owners, err := treeOf(t.Owners)
		if err != nil {
			return nil, err
		}
		metadata["ownerReferences"] = owners
	}
	spec, _ := runtime.DeepCopyJSONValue(template["spec"]).(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	if t.Hostname != "" && spec["hostname"] == nil {
		spec["hostname"] = t.Hostname
	}
	if err := addVolumes(spec, t.Volumes); err != nil {
		return nil, err
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, nil
}

func addTexts(object map[string]any, key string, texts map[string]string) {
	if len(texts) == 0 {
		return
	}
	into, _ := object[key].(map[string]any)
	if into == nil {
		into = map[string]any{}
		object[key] = into
	}
	for name, text := range texts {
		into[name] = text
	}
}

func addVolumes(spec map[string]any, volumes []v1.Volume) error {
	for _, volume := range volumes {
		added, err := treeOf(volume)
		if err != nil {
			return err
		}
		all, _ := spec["volumes"].([]any)
		at := len(all)
		for i, have := range all {
			if lookup(have)["name"] == volume.Name {
				at = i
			}
		}
		if at == len(all) {
			all = append(all, nil)
		}
		all[at] = added
		spec["volumes"] = all
	}
	return nil
}

// treeOf returns a value of the API as a tree.
func treeOf(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	docs, err := readJSON(data, 1, DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	return docs[0].root, nil
}
