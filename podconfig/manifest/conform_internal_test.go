// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A self-decoding type unknown to conform would be treated as its fields.
func TestEverySelfDecodingTypeOfAPodIsKnown(t *testing.T) {
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	seen, known := map[reflect.Type]bool{}, 0
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		_, _, special := selfDecoding(nil, typ)
		if reflect.PointerTo(typ).Implements(unmarshaler) {
			assert.True(t, special, typ)
			known++
			return
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if name := f.Tag.Get("json"); name != "managedFields,omitempty" { // removed before
					walk(f.Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[metav1.ObjectMeta]())
	walk(reflect.TypeFor[v1.PodSpec]())
	assert.GreaterOrEqual(t, known, 3)
	assert.Greater(t, len(seen), 100)
}
