// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
)

// Files adds a file per item to p. make converts a value to a file. allocatable are the node's
// allocatable resources, the default for missing limits. The error joins the errors of all items.
// Errors are terminal, because the mistakes are in the pod's spec.
func Files(p payload.Payload, pod *v1.Pod, items []v1.DownwardAPIVolumeFile, allocatable v1.ResourceList,
	make func(data []byte, mode *int32, user *int64) payload.File) error {
	var failed []error
	for i := range items {
		item := &items[i]
		text, err := value(pod, item, allocatable)
		if err == nil {
			err = p.Add(item.Path, make([]byte(text), item.Mode, item.User))
		} else {
			err = fmt.Errorf("path %s: %w", payload.Shown(item.Path), err)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return volumemanager.Terminal(errors.Join(failed...))
}

func value(pod *v1.Pod, item *v1.DownwardAPIVolumeFile, allocatable v1.ResourceList) (string, error) {
	switch {
	case item.FieldRef != nil && item.ResourceFieldRef != nil:
		return "", errors.New("has both fieldRef and resourceFieldRef")
	case item.FieldRef != nil:
		return field(pod, item.FieldRef)
	case item.ResourceFieldRef != nil:
		return resourceField(pod, item.ResourceFieldRef, allocatable)
	}
	return "", errors.New("has neither fieldRef nor resourceFieldRef")
}
