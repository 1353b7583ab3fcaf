// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A document is first parsed into a tree of map[string]any, []any, string, json.Number, bool and,
// in lists, nil. Nulls in mappings mean "absent" and are dropped. The tree is checked for unknown
// fields and wrong types. Its JSON is the canonical form that identifies a pod.
type document struct {
	root any
	// duplicates are the problems of duplicate keys.
	duplicates []Problem
	// nodes is the parsed text, for positions. It is nil if the text was read as JSON; see parsed.
	nodes *yaml.Node
	text  []byte
	// prefix is the path of root in nodes, "" for the root of the document.
	prefix string
}

// parsed returns the nodes of the document, nil if the text is not a single YAML document. JSON is
// parsed again as YAML only here, because its positions are needed only for errors.
func (d *document) parsed() *yaml.Node {
	if d.nodes == nil && d.text != nil {
		var n yaml.Node
		if yaml.Unmarshal(d.text, &n) == nil {
			d.nodes = &n
		}
		d.text = nil
	}
	return d.nodes
}

// locate sets the positions of the problems that Error.Error lists.
func (d *document) locate(problems []Problem) []Problem {
	for i := range problems[:min(len(problems), listedProblems)] {
		p := &problems[i]
		if p.Position != (Position{}) || d.parsed() == nil {
			continue
		}
		switch path := joinPath(d.prefix, p.Field); {
		case p.isKey:
			p.Position = locateKey(d.nodes, path)
		default:
			p.Position = locate(d.nodes, path)
		}
	}
	return problems
}

func joinPath(prefix, path string) string {
	if prefix == "" || path == "" {
		return prefix + path
	}
	return prefix + "." + path
}

// readDocuments reads the non-null documents of a YAML or JSON text.
func readDocuments(data []byte, most int, maxBytes int64) ([]document, error) {
	if int64(len(data)) >= maxBytes {
		return nil, TooLarge(maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkText(data); err != nil {
		return nil, err
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, problem(Position{}, ErrEmpty, "")
	}
	docs, err := []document(nil), errNotJSON
	if trimmed[0] == '{' || trimmed[0] == '[' {
		docs, err = readJSON(data, most, maxBytes)
	}
	if errors.Is(err, errNotJSON) {
		docs, err = readYAML(data, most, maxBytes)
	}
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0:
		return nil, problem(Position{}, ErrEmpty, "")
	case len(docs) > most:
		at := Position{}
		if docs[most].nodes != nil {
			at = positionOf(docs[most].nodes)
		}
		return nil, problem(at, ErrDocuments, "write each pod to a file of its own")
	}
	return docs, nil
}

// TooLarge returns the error for a manifest of limit bytes or more, for callers that know the size
// before reading.
func TooLarge(limit int64) error {
	return problem(Position{}, ErrTooLarge, fmt.Sprintf("it must be smaller than %d bytes", limit))
}

// isUTF16 reports whether the first bytes are UTF-16: a byte order mark, or every second byte zero.
func isUTF16(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	mark := data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff
	return mark || data[0] != 0 && data[1] == 0 && data[2] != 0 && data[3] == 0 ||
		data[0] == 0 && data[1] != 0 && data[2] == 0 && data[3] != 0
}

// checkText rejects bytes invalid in both YAML and JSON. A parser would describe them in terms of
// YAML.
func checkText(data []byte) error {
	if isUTF16(data) {
		return problem(Position{Line: 1, Column: 1}, ErrNotText, "it looks like UTF-16: save it as UTF-8")
	}
	for i, c := range data {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return problem(positionAt(data, i), ErrNotText, fmt.Sprintf("it contains the byte %#02x", c))
		}
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return problem(positionAt(data, i), ErrNotText, fmt.Sprintf("the byte %#02x is not UTF-8: save the file as UTF-8", data[i]))
		}
		i += size
	}
	return nil
}
