// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stretchr/testify/assert"
)

// TestContentOfWritesToNoObject: the fake server of client-go sends watchers the objects that it stores.
func TestContentOfWritesToNoObject(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	for _, o := range []runtime.Object{&v1.ConfigMap{ObjectMeta: meta}, &v1.Secret{ObjectMeta: meta}} {
		before := o.DeepCopyObject()
		c, ok := contentOf(o)
		assert.True(t, ok)
		assert.Empty(t, c.meta().ManagedFields)
		assert.Equal(t, before, o)
	}
}
