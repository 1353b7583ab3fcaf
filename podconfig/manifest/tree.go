// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
)

const (
	// maxValues limits the values of a document. The size of the text is no sufficient limit,
	// because an element of two bytes becomes a struct of a kilobyte. A pod of 100 containers has
	// about 5,000 values.
	maxValues = 100_000
	// maxDepth limits the nesting. The deepest field of a pod is about 15 levels down.
	maxDepth = 64
	// maxContainers limits the containers of a pod. They are counted before any work per container.
	maxContainers = 1_000
)

// budget is the remaining allowance of a document. Aliases count each time they are used.
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
		return problem(Position{}, ErrTooLarge, fmt.Sprintf("nested deeper than %d levels", maxDepth))
	case b.values < 0:
		return problem(Position{}, ErrTooLarge, fmt.Sprintf("more than %d values", maxValues))
	case b.bytes < 0:
		return problem(Position{}, ErrTooLarge, "its aliases expand beyond the size limit")
	}
	return nil
}

// countContainers reports a pod with more than maxContainers containers.
func countContainers(root any) []Problem {
	spec, n := lookup(root, "spec"), 0
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := spec[key].([]any)
		if n += len(list); n > maxContainers {
			return []Problem{{Field: "spec." + key, Text: fmt.Sprintf("a pod has at most %d containers, split it into several pods", maxContainers)}}
		}
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

// lookup returns the mapping at the given keys, or nil.
func lookup(root any, keys ...string) map[string]any {
	m, _ := root.(map[string]any)
	for _, key := range keys {
		m, _ = m[key].(map[string]any)
	}
	return m
}
