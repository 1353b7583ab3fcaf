// SPDX-License-Identifier: Apache-2.0

package kubeletfields_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/kubelet/config/v1beta1"
)

const table = "../../examples/nodeagent/nodeconfig/fields.txt"

// A field that a new version of Kubernetes brings is one that nobody has decided about.
func TestTheTableHasTheFieldsOfTheType(t *testing.T) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] != "#" {
			have[words[0]] = words[1]
		}
	}
	want := map[string]string{}
	walk("", reflect.TypeFor[v1beta1.KubeletConfiguration](), have, want)
	for path, kind := range want {
		if have[path] != kind {
			t.Errorf("%s is a %s in Go and %q in fields.txt: decide what the agent does with it", path, kind, have[path])
		}
	}
	for path := range have {
		if want[path] == "" {
			t.Errorf("%s in fields.txt is no field of KubeletConfiguration", path)
		}
	}
	if len(want) < 120 {
		t.Errorf("only %d fields were found", len(want))
	}
}

// walk adds the kind of each field below t. Of a struct that the table has as an object, walk adds the
// struct, and its fields that the table has.
func walk(path string, t reflect.Type, have, want map[string]string) {
	pointer := ""
	if t.Kind() == reflect.Pointer {
		pointer, t = "*", t.Elem()
	}
	switch {
	case t.Name() == "TypeMeta":
	case t.Name() == "Duration":
		want[path] = pointer + "duration"
	case have[path] == "object":
		want[path] = "object"
		if t.Kind() != reflect.Struct {
			return
		}
		// The table may decide about some fields of an object on their own.
		below := map[string]string{}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			walk(path+"."+name, f.Type, have, below)
		}
		for path, kind := range below {
			if have[path] != "" {
				want[path] = kind
			}
		}
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if path != "" && name != "" {
				name = path + "." + name
			}
			walk(name, f.Type, have, want)
		}
	default:
		want[path] = pointer + kind(t)
	}
}

func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int32, reflect.Int64, reflect.Uint32:
		return "int"
	case reflect.Float64:
		return "float"
	case reflect.Map:
		return "map"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "objects"
		}
		return "list"
	}
	return t.Kind().String()
}
