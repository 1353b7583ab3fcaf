// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// format returns a value of the kind of f in the form of a flag. set is false for a value that
// counts as unset. The error describes the wanted form.
func format(f field, v value) (text string, set bool, err error) {
	switch {
	case v.tag == "!!null":
		return "", false, nil
	case f.kind == "list":
		text, err = joined(v, scalar)
	case f.kind == "map" && f.rule == ruleHeaders:
		text, err = headers(v)
	case f.kind == "map":
		separator := "="
		if f.rule == ruleThresholds {
			separator = "<"
		}
		text, err = pairs(v, separator)
		if f.unset != "" && err == nil {
			return text, true, nil // an empty mapping is a value: it has none of the defaults
		}
	case f.kind == "objects" && f.rule == ruleTaints:
		text, err = joined(v, taint)
	case f.kind == "objects" && f.rule == rulePriorities:
		text, err = joined(v, priority)
	case f.kind == "objects", f.kind == "object":
		if len(v.list)+len(v.fields) > 0 {
			text = "set"
		}
	default:
		text, err = plain(f, v)
	}
	return text, err == nil && text != "", err
}

// plain returns the text of a scalar, or "" for a zero value that counts as unset.
func plain(f field, v value) (string, error) {
	zero := false
	var err error
	switch f.kind {
	case "bool":
		zero = v.text == "false"
		if v.tag != "!!bool" || v.text != "true" && v.text != "false" {
			err = errors.New("want true or false")
		}
	case "int":
		var n int64
		if n, err = strconv.ParseInt(v.text, 10, 64); err != nil || v.tag != "!!int" {
			err = errors.New("want a number")
		}
		zero = n == 0
	case "float":
		var n float64
		if n, err = strconv.ParseFloat(v.text, 64); err != nil || v.tag != "!!int" && v.tag != "!!float" {
			err = errors.New("want a number")
		}
		zero = n == 0
	case "duration":
		var d time.Duration
		if d, err = time.ParseDuration(v.text); err != nil || v.tag != "!!str" {
			err = errors.New("want a duration, such as 2m0s")
		}
		zero = d == 0
	default:
		zero = v.text == ""
		if v.tag != "!!str" {
			err = errors.New("want a text")
		}
	}
	if err != nil || zero && !f.pointer {
		return "", err
	}
	return v.text, nil
}

// isZero reports whether v is the value that kubeadm writes for an unset field.
func isZero(v value) bool {
	for _, inner := range v.fields {
		if !isZero(inner) {
			return false
		}
	}
	return len(v.list) == 0 && (v.fields != nil || slices.Contains([]string{"", "0", "0s", "false", "null", "~"}, v.text))
}

// same reports whether two texts of a kind have the same meaning.
func same(kind, a, b string) bool {
	if kind != "duration" {
		return a == b
	}
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}

// scalar returns the text of an element for a flag with a list.
func scalar(v value) (string, error) {
	if v.list != nil || v.fields != nil || v.tag == "!!null" || v.text == "" || strings.ContainsAny(v.text, ",\"\n\r") {
		return "", errors.New("want texts without commas, quotes and line ends")
	}
	return v.text, nil
}

func joined(v value, each func(value) (string, error)) (string, error) {
	if v.tag != "!!seq" {
		return "", errors.New("want a list")
	}
	var all []string
	for _, item := range v.list {
		text, err := each(item)
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	return strings.Join(all, ","), nil
}

// pairs returns the keys and values of a mapping with a separator between each key and its value.
func pairs(v value, separator string) (string, error) {
	if v.tag != "!!map" {
		return "", errors.New("want a mapping")
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(v.fields)) {
		text, err := scalar(v.fields[key])
		if err != nil || key == "" || strings.ContainsAny(key, "=<,\"\n\r") {
			return "", errors.New("want a mapping of texts without commas and quotes")
		}
		all = append(all, key+separator+text)
	}
	return strings.Join(all, ","), nil
}

// headers returns name:value,… for a mapping of names to lists of values.
func headers(v value) (string, error) {
	if v.tag != "!!map" {
		return "", errors.New("want a mapping of lists")
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v.fields)) {
		if _, err := joined(v.fields[name], scalar); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		for _, item := range v.fields[name].list {
			all = append(all, name+":"+item.text)
		}
	}
	return strings.Join(all, ","), nil
}

func taint(v value) (string, error) {
	t := v1.Taint{Key: v.fields["key"].text, Value: v.fields["value"].text, Effect: v1.TaintEffect(v.fields["effect"].text)}
	if text := t.ToString(); t.Key != "" && t.Effect != "" && !strings.ContainsAny(text, ",\"\n\r") {
		return text, nil
	}
	return "", errors.New("want taints with key and effect")
}

// priority returns priority=seconds for the grace period of a priority.
func priority(v value) (string, error) {
	of, grace := v.fields["priority"], v.fields["shutdownGracePeriodSeconds"]
	if of.tag != "!!int" || grace.tag != "!!int" {
		return "", errors.New("want numbers for priority and shutdownGracePeriodSeconds")
	}
	return of.text + "=" + grace.text, nil
}

// resolve returns path, relative to the folder of file.
func resolve(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
