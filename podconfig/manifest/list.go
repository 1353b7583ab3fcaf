// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
)

// maxPods limits the pods of a list. A node runs far fewer.
const maxPods = 10_000

// Pods decodes a manifest with a Pod or a v1 PodList, or with MultiDocument any number of them as
// documents. As in the kubelet, a single invalid pod makes the whole manifest invalid; the *Error
// holds the problems of all pods. An empty PodList is no error.
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
	var bad []Problem
	for i := range items {
		pod, problems := d.pod(&items[i], o)
		items[i].locate(problems)
		for _, p := range problems {
			if len(items) > 1 {
				p.Text += fmt.Sprintf(" (pod %d of %d)", i+1, len(items))
			}
			bad = append(bad, p)
		}
		pods = append(pods, pod)
	}
	if len(bad) > 0 {
		return nil, &Error{Problems: bad}
	}
	return pods, nil
}

// listItems replaces each PodList by its items. Items may lack apiVersion and kind, because servers
// omit both.
func listItems(docs []document) ([]document, error) {
	var items []document
	for i := range docs {
		doc := &docs[i]
		if checkKind(doc.root, "PodList") != nil {
			if problems := checkKind(doc.root, "Pod"); problems != nil {
				return nil, &Error{Problems: doc.locate(problems)}
			}
			items = append(items, *doc)
			continue
		}
		more, problems := itemsOf(doc)
		if problems != nil {
			return nil, &Error{Problems: doc.locate(problems)}
		}
		items = append(items, more...)
	}
	if len(items) > maxPods {
		return nil, problem(Position{}, ErrTooLarge, fmt.Sprintf("more than %d pods", maxPods))
	}
	return items, nil
}

// rawItems returns the items of a list of any kind.
func rawItems(doc *document) ([]any, []Problem) {
	raw := lookup(doc.root)["items"]
	list, isList := raw.([]any)
	if raw != nil && !isList {
		return nil, []Problem{{Field: "items", Text: "expected a list, got " + describe(raw)}}
	}
	return list, nil
}

func itemsOf(doc *document) ([]document, []Problem) {
	list, problems := rawItems(doc)
	if problems != nil {
		return nil, problems
	}
	var items []document
	for i, root := range list {
		path := indexed("items", i)
		m, ok := root.(map[string]any)
		if !ok {
			return nil, []Problem{{Field: path, Text: "expected an object, got " + describe(root)}}
		}
		if m["kind"] == nil && m["apiVersion"] == nil {
			m["kind"], m["apiVersion"] = "Pod", "v1"
		}
		if problems := checkKind(root, "Pod"); problems != nil {
			problems[0].Field = joinPath(path, problems[0].Field)
			return nil, problems
		}
		item := document{root: root, nodes: doc.nodes, text: doc.text, prefix: path}
		if i == 0 {
			item.duplicates = doc.duplicates // reported once
		}
		items = append(items, item)
	}
	return items, nil
}
