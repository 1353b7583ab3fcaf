// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Fetched classifies the error of a source. A missing optional object is not an error: the result
// is nil, nil. Every other error is transient, because the volume is unchanged.
func Fetched[T any](object *T, err error, kind, namespace, name string, optional *bool) (*T, error) {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, volumemanager.Transient(fmt.Errorf("%s %s/%s: %w", kind, namespace, name, err))
	}
	return object, nil
}
