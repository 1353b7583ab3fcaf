// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Child is an entry of a folder.
type Child struct {
	Name string
	Type fs.FileMode // type bits only; links are not followed
}

// List returns the entries of the folder rel below root, in the order of their names. An error other
// than fs.ErrNotExist may come with a part of the list.
func List(root *os.Root, rel string) ([]Child, error) {
	entries, err := readDir(root, rel)
	list := make([]Child, len(entries))
	for i, e := range entries {
		list[i] = Child{e.Name(), e.Type()}
	}
	slices.SortFunc(list, func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}
