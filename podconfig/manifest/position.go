// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Position is a position in the text of a manifest. The zero value is an unknown position.
type Position struct {
	// Line and Column count from 1; a column is a character, not a byte.
	Line, Column int
}

// String returns "line:column", and "" for an unknown position.
func (p Position) String() string {
	if p.Line == 0 {
		return ""
	}
	return strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

func positionOf(n *yaml.Node) Position { return Position{Line: n.Line, Column: n.Column} }

// positionAt returns the position of a byte of text.
func positionAt(text []byte, offset int) Position {
	before := string(text[:offset])
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return Position{Line: 1 + strings.Count(before, "\n"), Column: 1 + utf8.RuneCountInString(before[lineStart:])}
}

// locate returns the position of the field at path, in the notation of field.Path. For a missing
// field, locate returns the position of the nearest enclosing object or list. A list or object is
// located at its key, a scalar at its value.
func locate(n *yaml.Node, path string) Position {
	at := positionOf(n)
	for depth := 0; path != "" && depth < maxDepth; depth++ {
		key, value, rest := step(resolveAlias(n), path)
		if value == nil {
			break
		}
		n, path = value, rest
		switch {
		case key != nil && resolveAlias(n).Kind != yaml.ScalarNode:
			at = positionOf(key)
		case n.Line != 0:
			at = positionOf(n)
		}
	}
	return at
}

// locateKey returns the position of the key of the field at path. Without the key it returns the
// position of the nearest enclosing value.
func locateKey(n *yaml.Node, path string) Position {
	for depth, rest := 0, path; depth < maxDepth; depth++ {
		key, value, next := step(resolveAlias(n), rest)
		if value == nil {
			break
		}
		if next == "" && key != nil {
			return positionOf(key)
		}
		n, rest = value, next
	}
	return locate(n, "")
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// step returns the first element of path in n, its key if n is an object, and the rest of path. The
// element is nil if absent.
func step(n *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return nil, n.Content[0], path
		}
	case yaml.SequenceNode:
		text, after, closed := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(text)
		if closed && err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i], after
		}
	case yaml.MappingNode:
		longest := 0
		for i := 0; i+1 < len(n.Content); i += 2 {
			after, ok := cutKey(path, shorten(n.Content[i].Value))
			if used := len(path) - len(after); ok && used >= longest {
				longest, key, value, rest = used, n.Content[i], n.Content[i+1], after
			}
		}
	}
	return key, value, rest
}

// cutKey removes key from the beginning of path, as "key", ".key" or "[key]".
func cutKey(path, key string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(path, "["+key+"]"); ok {
		return rest, true
	}
	rest, ok = strings.CutPrefix(strings.TrimPrefix(path, "."), key)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
