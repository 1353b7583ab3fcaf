// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
)

// RemovePodLogs removes the log folders of a pod below logRoot, which is
// DefaultGeneratorOptions.LogRoot. No container of the pod may write to them. A
// call that is cut short leaves a folder with the pod's name; another call
// removes it. Links are not followed, and a call holds at most 32 file
// descriptors. A folder that is not there is no error.
func RemovePodLogs(logRoot string, uid types.UID) error {
	root, err := openIfThere(logRoot)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	list, err := entries(root, ".")
	errs := []error{err}
	for _, e := range list {
		if of, ok := podOfLogFolder(e.Name()); ok && of == uid && e.IsDir() {
			errs = append(errs, tree.RemoveAll(root, e.Name()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the logs of pod %s: %w", uid, err)
	}
	return nil
}

// PodsWithLogs returns the UIDs of the pods that have a log folder below logRoot,
// which is DefaultGeneratorOptions.LogRoot and need not be there. A UID may stand
// in the list twice.
func PodsWithLogs(logRoot string) ([]types.UID, error) {
	root, err := openIfThere(logRoot)
	if err != nil || root == nil {
		return nil, err
	}
	defer root.Close()
	list, err := entries(root, ".")
	var uids []types.UID
	for _, e := range list {
		if uid, ok := podOfLogFolder(e.Name()); ok && e.IsDir() {
			uids = append(uids, uid)
		}
	}
	return uids, err
}
