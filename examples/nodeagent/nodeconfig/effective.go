// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"strconv"
	"strings"
)

// Effective returns the KubeletConfiguration with the same effect as flags. The argument maps the name
// of a flag to the flag's text, as pflag prints the text. The result lacks fields without effect, and
// fields whose flag is missing in flags. A field that Parse accepts with a single value has this value.
// The result can be encoded as JSON, and Parse of the JSON returns the same flags.
func Effective(flags map[string]string) (map[string]any, error) {
	all := map[string]any{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
	for _, f := range fields() {
		text, known := flags[f.flag]
		if f.rule == ruleOnly && len(f.allowed) > 0 {
			text, known = f.allowed[0], true
		}
		if !known || f.rule == ruleHeaders { // headers are secrets
			continue
		}
		v, err := f.decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.path, text, err)
		}
		if v != nil {
			put(all, strings.Split(f.path, "."), v)
		}
	}
	return all, nil
}

// put sets a value below the objects that path names.
func put(all map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := all[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			all[name] = inner
		}
		all = inner
	}
	all[path[len(path)-1]] = v
}

// decode returns the value of a flag's text in the form of encoding/json. The result is nil for a
// value that counts as unset.
func (f field) decode(text string) (any, error) {
	list := elements(text)
	switch {
	case (text == "" || text == "[]") && f.unset == "" && !f.pointer:
		return nil, nil
	case f.kind == "bool":
		return strconv.ParseBool(text)
	case f.kind == "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if n == 0 && f.rule == ruleOnly {
			return nil, err
		}
		return n, err
	case f.kind == "float":
		n, err := strconv.ParseFloat(text, 64)
		if n == 0 {
			return nil, err
		}
		return n, err
	case f.kind == "list":
		return list, nil
	case f.kind == "map":
		return f.decodeMap(list)
	case f.kind == "objects":
		return f.decodeObjects(list)
	}
	return text, nil
}

// elements returns the elements of a list. pflag writes a list in brackets.
func elements(text string) []string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (f field) decodeMap(list []string) (any, error) {
	separator := "="
	if f.rule == ruleThresholds {
		separator = "<"
	}
	all := map[string]any{}
	for _, element := range list {
		key, value, _ := strings.Cut(element, separator)
		all[key] = value
		if f.path != "featureGates" { // the only mapping to other values than texts
			continue
		}
		var err error
		if all[key], err = strconv.ParseBool(value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (f field) decodeObjects(list []string) (any, error) {
	all := []any{}
	for _, element := range list {
		key, value, _ := strings.Cut(element, "=")
		if f.rule == rulePriorities {
			priority, err := strconv.ParseInt(key, 10, 32)
			if err != nil {
				return nil, err
			}
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, err
			}
			all = append(all, map[string]any{"priority": priority, "shutdownGracePeriodSeconds": seconds})
			continue
		}
		// A taint: key=value:effect or key:effect.
		key, effect, _ := strings.Cut(element, ":")
		key, value, _ = strings.Cut(key, "=")
		all = append(all, map[string]any{"key": key, "value": value, "effect": effect})
	}
	return all, nil
}
