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

// A type that decodes itself and is not known to conform would be taken for the fields it is made of.
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

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 2}, {"contaners", "containers", 1}, {"kitten", "sitting", 3}, {"a", "abcd", 3}} {
		assert.Equal(t, tt.want, editDistance(tt.a, tt.b, 4), tt.a+" "+tt.b)
		assert.Equal(t, tt.want, editDistance(tt.b, tt.a, 4), tt.b+" "+tt.a)
	}
	assert.Equal(t, 2, editDistance("a", "abcd", 2), "gives up")
}
