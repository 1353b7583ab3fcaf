// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
)

// errNotJSON makes readDocuments try YAML, a near superset of JSON.
var errNotJSON = errors.New("not JSON")

// readJSON reads at most most+1 documents of a JSON text, enough to detect too many documents.
func readJSON(data []byte, most int, maxBytes int64) ([]document, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var docs []document
	for len(docs) <= most {
		r := jsonReader{dec: dec, budget: newBudget(maxBytes)}
		root, err := r.value("", 1)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if root != nil {
			docs = append(docs, document{root: root, duplicates: r.duplicates, text: data})
		}
	}
	return docs, nil
}

type jsonReader struct {
	dec        *json.Decoder
	budget     *budget
	duplicates []Problem
}

// token returns io.EOF only at a valid end of the text, and errNotJSON for any fault.
func (r *jsonReader) token(depth int) (json.Token, error) {
	tok, err := r.dec.Token()
	if errors.Is(err, io.EOF) && depth == 1 {
		return nil, io.EOF
	}
	if err != nil {
		return nil, errNotJSON
	}
	return tok, nil
}

func (r *jsonReader) value(path string, depth int) (any, error) {
	tok, err := r.token(depth)
	if err != nil {
		return nil, err
	}
	if err := r.budget.spend(depth, tokenSize(tok)); err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return r.mapping(path, depth)
	case json.Delim('['):
		return r.list(path, depth)
	}
	if _, stray := tok.(json.Delim); stray {
		return nil, errNotJSON
	}
	return tok, nil
}

func tokenSize(tok json.Token) int {
	switch t := tok.(type) {
	case string:
		return len(t)
	case json.Number:
		return len(t)
	}
	return 1
}

func (r *jsonReader) mapping(path string, depth int) (any, error) {
	m := map[string]any{}
	seen := map[string]bool{}
	for r.dec.More() {
		tok, err := r.token(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, errNotJSON
		}
		at := child(path, key)
		if seen[key] {
			r.duplicates = append(r.duplicates, Problem{Field: at, Text: "duplicate key: remove one of them", isKey: true})
		}
		seen[key] = true
		v, err := r.value(at, depth+1)
		if err != nil {
			return nil, err
		}
		if delete(m, key); v != nil {
			m[key] = v
		}
	}
	_, err := r.token(depth + 1)
	return m, err
}

func (r *jsonReader) list(path string, depth int) (any, error) {
	list := []any{}
	for r.dec.More() {
		v, err := r.value(indexed(path, len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.token(depth + 1)
	return list, err
}

// Objects returns the non-null documents of a YAML or JSON text as JSON, for objects that are not pods. Nulls in mappings
// are left out. A text of maxBytes bytes or more, an empty text, a syntax error and a duplicate key are an *Error, which
// quotes no value.
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
