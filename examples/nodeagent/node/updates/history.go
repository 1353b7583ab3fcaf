// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"fmt"
	"path"
	"strings"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// Unit is a pod or a group with its record, as found on the disk.
type Unit struct {
	// Name is "namespace/name" of a pod, or "group namespace/name".
	Name   string
	Pods   []string // "namespace/name" of the pods of the version that runs
	Node   string   // the node of these pods; the names of static pods end with it
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
		for _, pod := range l.versions.of(l.Runs()) {
			u.Pods, u.Node = append(u.Pods, pod.Namespace+"/"+pod.Name), pod.Spec.NodeName
		}
		for _, known := range l.versions {
			u.versions = append(u.versions, known.hash)
		}
		units = append(units, u)
	}
	sorted.By(units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	return units, nil
}

// Rollback asks the present or the next agent of dir to run an earlier version of a unit, and
// returns the hash of the version. hash is the beginning of that hash. With "", Rollback chooses
// the good version during an update, and otherwise the version before the good version. The version
// has to pass its gate like any update, and runs until the manifest changes.
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
