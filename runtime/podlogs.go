// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
)

// RemovePodLogs removes the log folders of a pod below logRoot, which is
// DefaultGeneratorOptions.LogRoot. No container of the pod may write to the folders. After an
// interrupted call, the next call removes the rest. Links are not followed, and a call holds at
// most 32 file descriptors. For a missing folder the result is nil.
func RemovePodLogs(logRoot string, uid types.UID) error {
	root, err := openIfThere(logRoot)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	list, err := entries(root, ".")
	errs := []error{err}
	for _, e := range list {
		if of, ok := podOfLogFolder(e.Name); ok && of == uid && e.Type.IsDir() {
			errs = append(errs, tree.RemoveAll(root, e.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the logs of pod %s: %w", uid, err)
	}
	return nil
}

// PodsWithLogs returns the UIDs of the pods with a log folder below logRoot, which is
// DefaultGeneratorOptions.LogRoot and may be missing. The list may contain a UID twice.
func PodsWithLogs(logRoot string) ([]types.UID, error) {
	root, err := openIfThere(logRoot)
	if err != nil || root == nil {
		return nil, err
	}
	defer root.Close()
	list, err := entries(root, ".")
	var uids []types.UID
	for _, e := range list {
		if uid, ok := podOfLogFolder(e.Name); ok && e.Type.IsDir() {
			uids = append(uids, uid)
		}
	}
	return uids, err
}
