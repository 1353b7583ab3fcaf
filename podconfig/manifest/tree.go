// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"
)

// A document is read into a tree first: map[string]any, []any, string, json.Number, bool and, in lists, nil. Nulls in
// mappings are dropped, they mean "absent". The tree is what duplicates, unknown fields and wrong types are found in,
// and its JSON is the canonical form that identifies a pod.
type document struct {
	root       any
	duplicates []string // one text each
}

const (
	// maxValues bounds the values of one document: an element of two bytes becomes a struct of a kilobyte, so the size
	// of the text alone bounds nothing. A pod of 100 containers has about 5,000.
	maxValues = 100_000
	// maxDepth bounds the nesting. A pod's deepest field is about 15 levels down.
	maxDepth = 64
)

// budget is what one document may still use. Aliases count each time they are used.
type budget struct {
	values int
	bytes  int64
}

func newBudget(maxBytes int64) *budget {
	return &budget{values: maxValues, bytes: maxBytes}
}

func (b *budget) spend(depth, size int) error {
	b.values--
	b.bytes -= int64(size)
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%w: nested deeper than %d levels", ErrTooLarge, maxDepth)
	case b.values < 0:
		return fmt.Errorf("%w: more than %d values", ErrTooLarge, maxValues)
	case b.bytes < 0:
		return fmt.Errorf("%w: its aliases expand beyond the size limit", ErrTooLarge)
	}
	return nil
}

// child appends a field or map key to a path in the notation of field.Path.
func child(path, key string) string {
	if path == "" {
		return shorten(key)
	}
	return path + "." + shorten(key)
}

func keyed(path, key string) string { return path + "[" + shorten(key) + "]" }

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// lookup returns the mapping at the given keys, nil if there is none.
func lookup(root any, keys ...string) map[string]any {
	m, _ := root.(map[string]any)
	for _, key := range keys {
		m, _ = m[key].(map[string]any)
	}
	return m
}

func duplicateText(path string) string {
	return fmt.Sprintf("duplicate key %q", strings.TrimPrefix(path, "."))
}
