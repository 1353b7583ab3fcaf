// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/spelling"
)

// unknownText suggests a remedy for a field key unknown in the innermost object. The field may
// belong to another object of the document, as after a wrong indentation, or be a misspelling of a
// similar name.
func (c *conformer) unknownText(key string) string {
	if place := c.placeOf(key); place != "" {
		return fmt.Sprintf("unknown field here; it belongs to %s: check the indentation", place)
	}
	here := c.around[len(c.around)-1]
	if name := spelling.Nearest(key, slices.Sorted(maps.Keys(here.fields))); name != "" {
		return fmt.Sprintf("unknown field, did you mean %q?", name)
	}
	return "unknown field: remove it"
}

// placeOf returns the path of the nearest object of the document with a field key. It searches the
// objects inside the innermost object, then the enclosing objects from the inside out, each before
// the objects inside it.
func (c *conformer) placeOf(key string) string {
	for _, s := range slices.Backward(c.around) {
		if _, ok := s.fields[key]; ok {
			if s.path == "" {
				return "the top level"
			}
			return s.path
		}
		if place := c.placeIn(s, slices.Sorted(maps.Keys(s.object)), key); place != "" {
			return place
		}
	}
	here := c.around[len(c.around)-1]
	return c.placeIn(here, slices.Sorted(maps.Keys(here.fields)), key) // in a missing or empty object
}

// placeIn returns the path of the first named field of s that is an object, or a list of objects,
// with the field key.
func (c *conformer) placeIn(s scope, names []string, key string) string {
	for _, name := range names {
		t, known := s.fields[name]
		if !known {
			continue
		}
		path := child(s.path, name)
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			if t.Kind() == reflect.Slice {
				path += "[]"
			}
			t = t.Elem()
		}
		if _, ok := fieldsOf(t)[key]; ok {
			return path
		}
	}
	return ""
}

// remedyFor returns the remedy for a value got where want is expected, "" if obvious. Of the value
// it includes at most a number and its unit.
func remedyFor(path, want string, got any) string {
	text, isText := got.(string)
	_, isNumber := got.(json.Number)
	_, isBool := got.(bool)
	switch {
	case want == "a string" && (isNumber || isBool):
		return "put it in quotes"
	case want == wantQuantity && isText:
		return quantityRemedy(text)
	case want == wantBool && isText:
		if _, err := strconv.ParseBool(text); err == nil {
			return "remove the quotes"
		}
	case want == wantWhole && isText:
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return "remove the quotes"
		}
		if d, err := time.ParseDuration(text); err == nil && strings.HasSuffix(path, "Seconds") {
			return fmt.Sprintf("write the number of seconds without a unit, %d", int64(d.Seconds()))
		}
	case want == "a list" && !isNumber && !isBool:
		return `begin each item with "- "`
	case want == "an object" && got == nil:
		return "the lines that belong to it are missing or have a wrong indentation"
	}
	return ""
}

var numberWithUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]{1,5})$`)

// quantityUnits are common but invalid units in lower case, and the valid units to suggest.
var quantityUnits = map[string][]string{
	"k": {"k", "Ki"}, "kb": {"k", "Ki"}, "kib": {"Ki"}, "mb": {"M", "Mi"}, "mib": {"Mi"}, "gb": {"G", "Gi"}, "gib": {"Gi"},
	"g": {"G", "Gi"}, "tb": {"T", "Ti"}, "tib": {"Ti"}, "ki": {"Ki"}, "mi": {"Mi"}, "gi": {"Gi"}, "ti": {"Ti"}, "b": {""},
	"cpu": {""}, "cpus": {""}, "core": {""}, "cores": {""}, "m": {"m", "M", "Mi"},
}

// quantityRemedy includes text only if it is a number with a unit.
func quantityRemedy(text string) string {
	m := numberWithUnit.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return ""
	}
	units := quantityUnits[strings.ToLower(m[2])]
	if units == nil {
		return fmt.Sprintf("%q is not a unit of a quantity", m[2])
	}
	written := make([]string, len(units))
	for i, unit := range units {
		written[i] = strconv.Quote(m[1] + unit)
	}
	return "write " + strings.Join(written, " or ")
}
