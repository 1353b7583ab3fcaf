// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// value is a YAML value with its position. Values are immutable.
type value struct {
	file   string
	line   int
	tag    string           // "!!str", "!!map" and so on
	text   string           // of a scalar
	list   []value          // of a sequence
	fields map[string]value // of a mapping
}

// maxDepth is the maximum nesting depth of a file. KubeletConfiguration needs six levels.
const maxDepth = 32

// parse returns the value of a file with a single YAML or JSON document.
func parse(f File) (value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(f.Data, &doc); err != nil {
		return value{}, &FieldError{File: f.Name, Line: 1, Why: err.Error()}
	}
	if len(doc.Content) == 0 {
		return value{}, &FieldError{File: f.Name, Line: 1, Why: "the file is empty"}
	}
	return convert(f.Name, doc.Content[0], maxDepth)
}

func convert(file string, n *yaml.Node, depth int) (value, error) {
	v := value{file: file, line: n.Line, tag: n.ShortTag(), text: n.Value}
	refuse := func(why string) (value, error) { return value{}, &FieldError{File: file, Line: n.Line, Why: why} }
	switch {
	case depth == 0:
		return refuse("the values are nested too deep")
	case n.Kind == yaml.AliasNode:
		return refuse("YAML aliases are not supported")
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			converted, err := convert(file, item, depth-1)
			if err != nil {
				return value{}, err
			}
			v.list = append(v.list, converted)
		}
	case n.Kind == yaml.MappingNode:
		v.fields = make(map[string]value, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, twice := v.fields[key.Value]; twice || key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				return refuse(fmt.Sprintf("the key %q in line %d stands twice or is no text", key.Value, key.Line))
			}
			converted, err := convert(file, n.Content[i+1], depth-1)
			if err != nil {
				return value{}, err
			}
			v.fields[key.Value] = converted
		}
	}
	return v, nil
}

// merge returns base changed by patch, as in a JSON merge patch (RFC 7396): mappings are merged,
// null removes, every other value replaces.
func merge(base, patch value) value {
	if patch.fields == nil {
		return patch
	}
	merged := patch
	merged.fields = map[string]value{}
	if base.fields != nil {
		maps.Copy(merged.fields, base.fields)
	}
	for key, v := range patch.fields {
		if v.tag == "!!null" {
			delete(merged.fields, key)
			continue
		}
		merged.fields[key] = merge(merged.fields[key], v)
	}
	return merged
}

const apiVersion, kind = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"

// checkType returns an error if v is not a KubeletConfiguration.
func checkType(v value) error {
	if a, k := v.fields["apiVersion"].text, v.fields["kind"].text; a != apiVersion || k != kind {
		return &FieldError{File: v.file, Line: max(v.line, 1), Why: fmt.Sprintf("unknown apiVersion/kind: %q, %q; want %s, %s", a, k, apiVersion, kind)}
	}
	return nil
}

// take removes the value at a path of v and returns it. An empty mapping is removed, too. take
// modifies v, which belongs to the caller.
func take(v map[string]value, path []string) (value, bool, error) {
	found, ok := v[path[0]]
	if !ok || len(path) == 1 {
		delete(v, path[0])
		return found, ok, nil
	}
	if found.tag == "!!null" {
		delete(v, path[0])
		return value{}, false, nil
	}
	if found.fields == nil {
		return found, true, errNotMapping
	}
	inner, ok, err := take(found.fields, path[1:])
	if len(found.fields) == 0 {
		delete(v, path[0])
	}
	return inner, ok, err
}

var errNotMapping = errors.New("want a mapping")

// leaves calls f with the path of each value in v, in order.
func leaves(prefix string, v map[string]value, f func(path string, v value)) {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if inner := v[key]; len(inner.fields) > 0 {
			leaves(prefix+key+".", inner.fields, f)
		} else {
			f(prefix+key, inner)
		}
	}
}
