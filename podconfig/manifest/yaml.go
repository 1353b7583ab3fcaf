// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxMarks limits the bytes of a YAML text that can begin a value. The parser builds its whole
// tree, with about 200 bytes per value, before values can be counted. A text with more marks is
// thus rejected before parsing. The limit exceeds maxValues, because marks inside scalars count,
// too.
const maxMarks = 4 * maxValues

// readYAML reads at most most+1 non-null documents of a YAML text.
func readYAML(data []byte, most int, maxBytes int64) ([]document, error) {
	if countMarks(data) > maxMarks {
		return nil, problem(Position{}, ErrTooLarge, fmt.Sprintf("more than %d values", maxMarks))
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	next := func() (*yaml.Node, error) {
		n := &yaml.Node{}
		err := dec.Decode(n)
		if err != nil && !errors.Is(err, io.EOF) {
			err = syntaxError(data, err)
		}
		return n, err
	}
	return readTrees(next, most, maxBytes, nil)
}

// readTrees reads documents up to an error of next, which is io.EOF at the end. The nodes of JSON
// have no positions; jsonText is their text.
func readTrees(next func() (*yaml.Node, error), most int, maxBytes int64, jsonText []byte) ([]document, error) {
	var docs []document
	for len(docs) <= most {
		nodes, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		r := treeReader{budget: newBudget(maxBytes), isJSON: jsonText != nil}
		root, err := r.value(nodes, 1)
		if err != nil {
			return nil, err
		}
		if r.isJSON {
			nodes = nil
		}
		if root != nil {
			docs = append(docs, document{root: root, duplicates: r.duplicates, nodes: nodes, text: jsonText})
		}
	}
	return docs, nil
}

// countMarks counts the bytes that can begin a value: flow indicators, and block indicators
// followed by white space.
func countMarks(data []byte) int {
	n := 0
	for i, c := range data {
		switch c {
		case ',', '[', '{':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}

// treeReader converts the parser's nodes to a tree, as Kubernetes interprets YAML: version 1.1, so
// that "yes" is a boolean and 0644 is octal. The budget limits the expanded size of aliases.
type treeReader struct {
	budget     *budget
	isJSON     bool
	expanding  []*yaml.Node // the anchors around the current value
	path       []yamlStep   // path of the current value
	duplicates []Problem
}

// yamlStep is a key of an object, or an index of a list if the key is nil.
type yamlStep struct {
	key   *yaml.Node
	index int
}

// pathOf returns steps and a last key in the notation of field.Path.
func pathOf(steps []yamlStep, key string) string {
	path := ""
	for _, s := range steps {
		if s.key == nil {
			path = indexed(path, s.index)
			continue
		}
		path = child(path, s.key.Value)
	}
	return child(path, key)
}

func (r *treeReader) value(n *yaml.Node, depth int) (any, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.alias(n, depth)
	}
	if err := r.budget.spend(depth, max(1, len(n.Value))); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		return m, r.mapping(n, m, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			r.path = append(r.path, yamlStep{index: i})
			var err error
			if list[i], err = r.value(item, depth+1); err != nil {
				return nil, err
			}
			r.path = r.path[:len(r.path)-1]
		}
		return list, nil
	}
	if r.isJSON && n.Tag == numberTag {
		return json.Number(n.Value), nil
	}
	return yamlScalar(n)
}

func (r *treeReader) alias(n *yaml.Node, depth int) (any, error) {
	if slices.Contains(r.expanding, n.Alias) || depth > maxDepth {
		return nil, problem(positionOf(n), ErrSyntax, "an anchor contains itself")
	}
	r.expanding = append(r.expanding, n.Alias)
	v, err := r.value(n.Alias, depth)
	r.expanding = r.expanding[:len(r.expanding)-1]
	return v, err
}

// mapping adds the pairs of n to m. Later pairs replace earlier pairs, whether merged ("<<: *base")
// or not.
func (r *treeReader) mapping(n *yaml.Node, m map[string]any, depth int) error {
	var lines map[string]int
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, item := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			if err := r.merge(item, m, depth+1); err != nil {
				return err
			}
			continue
		}
		key, err := yamlKey(k)
		if err != nil {
			return err
		}
		if first, again := lines[key]; again {
			where := ""
			if !r.isJSON {
				where = fmt.Sprintf(", it is already on line %d", first)
			}
			r.duplicates = append(r.duplicates, Problem{Position: positionOf(k), Field: pathOf(r.path, key),
				Text: "duplicate key" + where + ": remove one of them", isKey: true})
		}
		if lines == nil {
			lines = make(map[string]int, len(n.Content)/2)
		}
		lines[key] = k.Line
		r.path = append(r.path, yamlStep{key: k})
		v, err := r.value(item, depth+1)
		if err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		r.budget.bytes -= int64(len(key))
		if delete(m, key); v != nil {
			m[key] = v
		}
	}
	return nil
}

// merge adds the target of "<<": an object, or a list of objects of which earlier objects take
// precedence.
func (r *treeReader) merge(n *yaml.Node, m map[string]any, depth int) error {
	v, err := r.value(n, depth)
	if err != nil {
		return err
	}
	sources, isList := v.([]any)
	if !isList {
		sources = []any{v}
	}
	for _, source := range slices.Backward(sources) {
		merged, ok := source.(map[string]any)
		if !ok {
			return problem(positionOf(n), ErrSyntax, `"<<" needs an object, or a list of objects`)
		}
		maps.Copy(m, merged)
	}
	return nil
}

// yaml11 are the boolean words of YAML 1.1, and so of Kubernetes, unknown to the parser.
var yaml11 = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// yamlScalar returns a string, bool, json.Number or nil.
func yamlScalar(n *yaml.Node) (any, error) {
	tag := n.ShortTag()
	word, isWord := yaml11[n.Value]
	if isWord && (tag == "!!bool" || tag == "!!str" && n.Style&(quotedStyle|yaml.TaggedStyle) == 0) {
		return word, nil
	}
	switch tag {
	case "!!bool", "!!int", "!!float", "!!null", "!!binary":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, problem(positionOf(n), ErrSyntax, "the value does not fit its tag "+tag)
		}
		switch v := v.(type) {
		case bool, nil, string:
			return v, nil
		}
		number, ok := yamlNumber(v)
		if !ok {
			return nil, problem(positionOf(n), ErrSyntax, "a number is infinite or undefined")
		}
		return json.Number(number), nil
	}
	return n.Value, nil // a string, a time, or a custom tag
}

func yamlKey(k *yaml.Node) (string, error) {
	at := positionOf(k)
	k = resolveAlias(k)
	if k.Kind != yaml.ScalarNode {
		return "", problem(at, ErrSyntax, "a key is a list or a map, as in a template that is not filled in: put a value that begins with { or [ in quotes")
	}
	v, err := yamlScalar(k)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return string(v), nil
	}
	return "", problem(at, ErrSyntax, "a key is null")
}

func yamlNumber(raw any) (string, bool) {
	switch v := raw.(type) {
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return "", false
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}
