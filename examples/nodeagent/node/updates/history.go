// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// Unit is a pod or a group with its record, as found on the disk.
type Unit struct {
	// Name is "namespace/name" of a pod, or "group namespace/name".
	Name   string
	Pods   []string // "namespace/name" of the pods of the version that runs
	Record Record

	id       unitID
	versions []string
}

// Units returns the units in the folder of Options.Dir, sorted by name. It may be called beside a
// running agent, and by another program. Folders that cannot be read are left out.
func Units(dir string) ([]Unit, error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	loaded, _ := s.load()
	var units []Unit
	for _, l := range loaded {
		u := Unit{Name: l.Unit.String(), Record: l.Record, id: l.Unit}
		for _, pod := range l.versions[l.Runs()] {
			u.Pods = append(u.Pods, pod.Namespace+"/"+pod.Name)
		}
		for hash := range l.versions {
			u.versions = append(u.versions, hash)
		}
		units = append(units, u)
	}
	// sort.Slice, because slices.SortFunc is compiled anew for each struct, into 20 KB of the program.
	sort.Slice(units, func(i, j int) bool { return units[i].Name < units[j].Name })
	return units, nil
}

// Rollback asks the present or the next agent of dir to run an earlier version of a unit. hash is
// the beginning of the version's hash; "" means the version before the good version, and during an
// update the good version. The version passes its gate like any update. It stays until the manifest
// changes. Rollback returns the hash.
func Rollback(dir string, u Unit, hash string) (string, error) {
	if hash == "" {
		switch u.Record.Phase {
		case Staging, Staged, Proving:
			hash = u.Record.Good
		default:
			hash = u.Record.Previous()
		}
		if hash == "" {
			return "", fmt.Errorf("%s has no earlier version", u.Name)
		}
	}
	var found []string
	for _, version := range u.versions {
		if strings.HasPrefix(version, hash) {
			found = append(found, version)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s has %d versions that begin with %q, want 1 of: %s", u.Name, len(found), hash, strings.Join(u.versions, ", "))
	}
	s, err := openStore(dir)
	if err != nil {
		return "", err
	}
	defer s.close()
	return found[0], atomicfile.Write(s.dir, path.Join(requestsDir, u.id.folder()), []byte(found[0]))
}
