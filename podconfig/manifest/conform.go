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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Expected values in problem texts, besides the plain types.
const (
	wantQuantity = `a quantity such as "500m" or "64Mi"`
	wantBool     = "true or false"
	wantWhole    = "a whole number"
)

// conformer compares a tree with a Go type by the type's JSON tags. It knows the path of every
// problem. The JSON package lacks the path for types that decode themselves (quantities, times).
//
// Invariant: encoding/json decodes a tree without wrong problems into the type without error.
type conformer struct {
	around  []scope // the objects around the current value, outermost first
	unknown []Problem
	wrong   []Problem
}

// scope is an object of the document with its type.
type scope struct {
	path   string
	object map[string]any
	fields map[string]reflect.Type
}

// conform removes unknown fields from the tree, so that decoding and hashing ignore them.
func conform(root any, t reflect.Type) *conformer {
	c := &conformer{}
	c.value(root, t, "")
	return c
}

func (c *conformer) report(path, want string, got any) {
	text := fmt.Sprintf("expected %s, got %s", want, describe(got))
	if remedy := remedyFor(path, want, got); remedy != "" {
		text += ": " + remedy
	}
	c.wrong = append(c.wrong, Problem{Field: path, Text: text})
}

// describe returns the type of a value, never the value.
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
	here := scope{path: path, object: m, fields: fieldsOf(t)}
	c.around = append(c.around, here)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		ft, known := here.fields[key]
		if !known {
			delete(m, key)
			c.unknown = append(c.unknown, Problem{Field: child(path, key), Text: c.unknownText(key), isKey: true})
			continue
		}
		c.value(m[key], ft, child(path, key))
	}
	c.around = c.around[:len(c.around)-1]
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
		return wantBool, ok
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, isNumber := v.(json.Number)
		_, err := strconv.ParseInt(string(n), 10, t.Bits())
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Sprintf("a whole number of %d bits", t.Bits()), false
		}
		return wantWhole, isNumber && err == nil
	case reflect.Float32, reflect.Float64:
		n, isNumber := v.(json.Number)
		_, err := strconv.ParseFloat(string(n), t.Bits())
		return "a number", isNumber && err == nil
	}
	return "nothing", false // no other kind is in a pod
}

// selfDecoding checks a value of a type that decodes itself.
func selfDecoding(v any, t reflect.Type) (want string, ok, special bool) {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	switch t {
	case reflect.TypeFor[json.RawMessage](): // of a Document, for a field that is only looked for
		return "", true, true
	case reflect.TypeFor[resource.Quantity]():
		if isNumber {
			text = string(number)
		}
		return wantQuantity, (isText || isNumber) && isQuantity(strings.TrimSpace(text)), true
	case reflect.TypeFor[intstr.IntOrString]():
		_, err := strconv.ParseInt(string(number), 10, 32)
		return "a whole number or a name", isText || isNumber && err == nil, true
	case reflect.TypeFor[metav1.Time]():
		_, err := time.Parse(time.RFC3339, text)
		return "a time such as 2006-01-02T15:04:05Z", isText && err == nil, true
	}
	return "", false, false
}

// isQuantity rejects large exponents before parsing, because the library takes minutes and
// gigabytes to parse "1e-1000000000".
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

// fieldsByType has the results of fieldsOf, by reflect.Type, because a folder has many manifests of few types.
var fieldsByType sync.Map

// fieldsOf returns the types of a struct's fields by JSON name, including embedded structs. Types
// other than structs have no fields.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if fields, ok := fieldsByType.Load(t); ok {
		return fields.(map[string]reflect.Type)
	}
	if _, _, special := selfDecoding(nil, t); special || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			maps.Copy(fields, fieldsOf(f.Type))
		default:
			fields[name] = f.Type
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}
