// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
)

// maxPods bounds a list; a node runs far fewer.
const maxPods = 10_000

// Pods decodes a manifest that holds a Pod or a v1 PodList, and with MultiDocument any number of these as documents.
// One bad pod makes the whole manifest bad, as in the kubelet; the error then lists all bad pods and wraps the error of
// each. An empty PodList is no error.
func (d *Decoder) Pods(data []byte, o Origin) ([]*v1.Pod, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	most := 1
	if d.MultiDocument {
		most = math.MaxInt - 1
	}
	docs, err := readDocuments(data, most, d.Limit())
	if err != nil {
		return nil, err
	}
	items, err := listItems(docs)
	if err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	bad := &listError{total: len(items)}
	for i, item := range items {
		pod, err := d.pod(item, o)
		if err != nil {
			bad.add(i, err)
		}
		pods = append(pods, pod)
	}
	if len(items) == 1 && len(bad.errs) == 1 {
		return nil, bad.errs[0]
	}
	if len(bad.errs) > 0 {
		return nil, bad
	}
	return pods, nil
}

// listItems replaces each PodList by its items. Items need no apiVersion and kind, servers leave them out.
func listItems(docs []document) ([]document, error) {
	var items []document
	for _, doc := range docs {
		if checkKind(doc.root, "PodList") != nil {
			if err := checkKind(doc.root, "Pod"); err != nil {
				return nil, err
			}
			items = append(items, doc)
			continue
		}
		list, isList := lookup(doc.root)["items"].([]any)
		if raw := lookup(doc.root)["items"]; raw != nil && !isList {
			return nil, &StructureError{Problems: []string{"items: expected a list, got " + describe(raw)}}
		}
		for i, root := range list {
			m, ok := root.(map[string]any)
			if !ok {
				return nil, &StructureError{Problems: []string{fmt.Sprintf("%s: expected an object, got %s",
					indexed("items", i), describe(root))}}
			}
			if m["kind"] == nil && m["apiVersion"] == nil {
				m["kind"], m["apiVersion"] = "Pod", "v1"
			}
			if err := checkKind(root, "Pod"); err != nil {
				return nil, fmt.Errorf("%s: %w", indexed("items", i), err)
			}
			item := document{root: root}
			if i == 0 {
				item.duplicates = doc.duplicates // reported once
			}
			items = append(items, item)
		}
	}
	if len(items) > maxPods {
		return nil, fmt.Errorf("%w: more than %d pods", ErrTooLarge, maxPods)
	}
	return items, nil
}

// listError is the errors of several pods in one line.
type listError struct {
	total int
	texts []string
	errs  []error
}

func (e *listError) add(i int, err error) {
	e.texts = append(e.texts, fmt.Sprintf("pod %d of %d: %s", i+1, e.total, err))
	e.errs = append(e.errs, err)
}

func (e *listError) Error() string   { return joinProblems(e.texts) }
func (e *listError) Unwrap() []error { return e.errs }
