// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
)

// RemovePodLogs removes the log folder of a pod below logRoot, which is
// DefaultGeneratorOptions.LogRoot. Without a namespace or a name, all folders of the UID are removed,
// also those of an earlier name. No container of the pod may write to the folders. After an
// interrupted call, the next call removes the rest. Links are not followed, and a call holds at
// most 32 file descriptors. For a missing folder the result is nil.
func RemovePodLogs(logRoot, namespace, name string, uid types.UID) error {
	root, err := openIfThere(logRoot)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	var errs []error
	if namespace != "" && name != "" {
		folder := podLogFolder(namespace, name, uid)
		if info, err := root.Lstat(folder); err == nil && info.IsDir() {
			errs = append(errs, tree.RemoveAll(root, folder))
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	} else {
		list, err := entries(root, ".")
		errs = append(errs, err)
		for _, e := range list {
			if of, ok := podOfLogFolder(e.Name); ok && of == uid && e.Type.IsDir() {
				errs = append(errs, tree.RemoveAll(root, e.Name))
			}
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
