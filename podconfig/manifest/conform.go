// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// conformer compares a tree with a Go type by the type's JSON tags. It knows the path of everything it finds, which the
// JSON package does not for types that decode themselves (quantities, times).
//
// Invariant: a tree without wrong is decoded into the type by encoding/json without error.
type conformer struct {
	types   map[reflect.Type]map[string]reflect.Type
	unknown []string
	wrong   []string
}

// conform removes unknown fields from the tree, so that what is decoded and hashed is what is understood.
func conform(root any, t reflect.Type) *conformer {
	c := &conformer{types: map[reflect.Type]map[string]reflect.Type{}}
	c.value(root, t, "")
	return c
}

func (c *conformer) report(path, want string, got any) {
	text := fmt.Sprintf("%s: expected %s, got %s", path, want, describe(got))
	if want == "a string" && describe(got) != "a list" && describe(got) != "an object" {
		text += " (put it in quotes)"
	}
	c.wrong = append(c.wrong, text)
}

// describe names a value's type, never the value.
func describe(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return "null"
}

func (c *conformer) value(v any, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if want, ok, special := selfDecoding(v, t); special {
		if !ok {
			c.report(path, want, v)
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.object(v, t, path)
	case reflect.Map:
		c.mapping(v, t, path)
	case reflect.Slice:
		c.list(v, t, path)
	default:
		if want, ok := scalar(v, t); !ok {
			c.report(path, want, v)
		}
	}
}

func (c *conformer) object(v any, t reflect.Type, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		c.report(path, "an object", v)
		return
	}
	fields := c.fields(t)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		ft, known := fields[key]
		if !known {
			delete(m, key)
			c.unknown = append(c.unknown, unknownText(child(path, key), key, fields))
			continue
		}
		c.value(m[key], ft, child(path, key))
	}
}

func (c *conformer) mapping(v any, t reflect.Type, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		c.report(path, "an object", v)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		c.value(m[key], t.Elem(), keyed(path, key))
	}
}

func (c *conformer) list(v any, t reflect.Type, path string) {
	if t.Elem().Kind() == reflect.Uint8 {
		text, ok := v.(string)
		if _, err := base64.StdEncoding.DecodeString(text); !ok || err != nil {
			c.report(path, "base64 text", v)
		}
		return
	}
	list, ok := v.([]any)
	if !ok {
		c.report(path, "a list", v)
		return
	}
	for i, item := range list {
		c.value(item, t.Elem(), indexed(path, i))
	}
}

func scalar(v any, t reflect.Type) (want string, ok bool) {
	switch t.Kind() {
	case reflect.String:
		_, ok = v.(string)
		return "a string", ok
	case reflect.Bool:
		_, ok = v.(bool)
		return "true or false", ok
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, isNumber := v.(json.Number)
		_, err := strconv.ParseInt(string(n), 10, t.Bits())
		return fmt.Sprintf("a whole number of %d bits", t.Bits()), isNumber && err == nil
	case reflect.Float32, reflect.Float64:
		n, isNumber := v.(json.Number)
		_, err := strconv.ParseFloat(string(n), t.Bits())
		return "a number", isNumber && err == nil
	}
	return "nothing", false // no other kind is in a pod
}

// selfDecoding judges the types that decode themselves.
func selfDecoding(v any, t reflect.Type) (want string, ok, special bool) {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		if isNumber {
			text = string(number)
		}
		return `a quantity such as "500m" or "64Mi"`, (isText || isNumber) && isQuantity(strings.TrimSpace(text)), true
	case reflect.TypeFor[intstr.IntOrString]():
		_, err := strconv.ParseInt(string(number), 10, 32)
		return "a whole number or a name", isText || isNumber && err == nil, true
	case reflect.TypeFor[metav1.Time]():
		_, err := time.Parse(time.RFC3339, text)
		return "a time such as 2006-01-02T15:04:05Z", isText && err == nil, true
	}
	return "", false, false
}

// isQuantity refuses far exponents itself: parsing "1e-1000000000" takes the library minutes and gigabytes.
func isQuantity(text string) bool {
	if i := strings.IndexAny(text, "eE"); i >= 0 && i+1 < len(text) {
		exponent, err := strconv.Atoi(text[i+1:])
		if err == nil && (exponent < -30 || exponent > 30) || errors.Is(err, strconv.ErrRange) {
			return false
		}
	}
	if len(text) > shownBytes {
		return false
	}
	_, err := resource.ParseQuantity(text)
	return err == nil
}

// fields maps the JSON names of a struct to their types, embedded structs included.
func (c *conformer) fields(t reflect.Type) map[string]reflect.Type {
	if fields, ok := c.types[t]; ok {
		return fields
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			maps.Copy(fields, c.fields(f.Type))
		default:
			fields[name] = f.Type
		}
	}
	c.types[t] = fields
	return fields
}

func unknownText(path, key string, fields map[string]reflect.Type) string {
	best, distance := "", min(3, 1+len(key)/3)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if d := editDistance(strings.ToLower(key), strings.ToLower(name), distance); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return fmt.Sprintf("unknown field %q", path)
	}
	return fmt.Sprintf("unknown field %q (did you mean %q?)", path, best)
}

// editDistance counts the single-byte edits from a to b; it gives up with limit when their lengths differ by as much.
func editDistance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
