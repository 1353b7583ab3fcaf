// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// visit calls see with a pointer to v and to each struct inside v, and with the path of the struct.
// A struct comes before the structs inside it, which are left out if see returns false, and an
// embedded struct has the path of the struct around it. Fields with zero values and maps are left
// out.
func visit(v reflect.Value, p *field.Path, see func(x any, p *field.Path) bool) {
	switch v.Kind() {
	case reflect.Pointer:
		visit(v.Elem(), p, see)
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), p.Index(i), see)
		}
	case reflect.Struct:
		if !see(v.Addr().Interface(), p) {
			return
		}
		for f, value := range v.Fields() {
			if !f.IsExported() || !holdsStructs(f.Type) || value.IsZero() {
				continue
			}
			at := p
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				at = p.Child(name)
			}
			visit(value, at, see)
		}
	}
}

// holdsStructs reports whether t is a struct, or a pointer to or a list of structs.
func holdsStructs(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}
