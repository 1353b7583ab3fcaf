// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// errNotJSON makes readDocuments try YAML, a near superset of JSON.
var errNotJSON = errors.New("not JSON")

// readJSON reads at most most+1 non-null documents of a JSON text.
func readJSON(data []byte, most int, maxBytes int64) ([]document, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	next := func() (*yaml.Node, error) { return jsonNode(dec, newBudget(maxBytes), 1) }
	return readTrees(next, most, maxBytes, data)
}

// numberTag is the tag of a number in JSON. Its text is kept, so that the canonical JSON has the
// same text.
const numberTag = "!!float"

// jsonNode returns the next value of a JSON text as nodes without positions. The error is io.EOF
// at the end of the text, and errNotJSON for any fault.
func jsonNode(dec *json.Decoder, b *budget, depth int) (*yaml.Node, error) {
	tok, err := dec.Token()
	switch {
	case errors.Is(err, io.EOF) && depth == 1:
		return nil, io.EOF
	case err != nil:
		return nil, errNotJSON
	}
	if err := b.spend(depth, 0); err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case string:
		return jsonString(t), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: numberTag, Value: string(t)}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(t)}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	if tok == json.Delim('[') {
		n.Kind = yaml.SequenceNode
	}
	for dec.More() {
		if n.Kind == yaml.MappingNode {
			key, err := dec.Token()
			if err != nil {
				return nil, errNotJSON
			}
			n.Content = append(n.Content, jsonString(key.(string)))
		}
		item, err := jsonNode(dec, b, depth+1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, item)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNotJSON
	}
	return n, nil
}

func jsonString(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: text}
}

// Objects returns the non-null documents of a YAML or JSON text as JSON, for objects that are not
// pods. Nulls in mappings are left out. A text of maxBytes bytes or more, an empty text, a syntax
// error and a duplicate key are an *Error, which quotes no value.
func Objects(data []byte, maxBytes int64) ([]json.RawMessage, error) {
	docs, err := readDocuments(data, math.MaxInt-1, maxBytes)
	if err != nil {
		return nil, err
	}
	all := make([]json.RawMessage, len(docs))
	for i := range docs {
		if duplicates := docs[i].locate(docs[i].duplicates); len(duplicates) > 0 {
			return nil, &Error{Problems: duplicates}
		}
		if all[i], err = json.Marshal(docs[i].root); err != nil {
			return nil, err
		}
	}
	return all, nil
}
