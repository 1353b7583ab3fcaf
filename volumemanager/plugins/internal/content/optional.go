// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Fetched judges the error of a source. An object that is not found is nil, nil if it is optional: nothing else is
// forgiven. Nothing was done to the volume yet, so that the error is transient.
func Fetched[T any](object *T, err error, kind, namespace, name string, optional *bool) (*T, error) {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, volumemanager.Transient(fmt.Errorf("%s %s/%s: %w", kind, namespace, name, err))
	}
	return object, nil
}
