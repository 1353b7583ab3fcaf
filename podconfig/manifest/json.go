// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// errNotJSON makes readDocuments go on with YAML, of which JSON is nearly a subset.
var errNotJSON = errors.New("not JSON")

// readJSON reads the documents of a JSON text, at most most+1, so that "too many" shows without reading on.
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
			docs = append(docs, document{root: root, duplicates: r.duplicates})
		}
	}
	return docs, nil
}

type jsonReader struct {
	dec        *json.Decoder
	budget     *budget
	duplicates []string
}

// token returns io.EOF only where the text may end, errNotJSON for any fault.
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
			r.duplicates = append(r.duplicates, duplicateText(at))
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
