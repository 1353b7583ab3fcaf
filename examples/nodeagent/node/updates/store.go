// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// The files of a store:
//
//	<source>_<namespace>_<name>/state.json            the record; its rename is the only commit
//	<source>_<namespace>_<name>/versions/<hash>.json  the manifests of a version, written before a record names them
//	requests/<source>_<namespace>_<name>              the hash that a person asks for
//	reserve                                           room for a record on a full disk
const (
	stateFile    = "state.json"
	versionsDir  = "versions"
	requestsDir  = "requests"
	reserveFile  = "reserve"
	removedDir   = ".removed-" // a prefix: the folder of a unit that is being removed
	recordFormat = 1

	maxState    = 64 << 10
	maxVersion  = 16 << 20
	reserveSize = 64 << 10
)

// store keeps records and versions on the disk.
type store struct{ dir *os.Root }

// saved is the content of a unit's folder.
type saved struct {
	Format int    `json:"format"`
	Unit   unitID `json:"unit"`
	Record
	versions versions
	lost     error // the record could not be read; Record is made from the versions
	newer    bool  // the record is that of a newer agent, and must not be changed
}

// version is the pods of a hash.
type version struct {
	hash string
	pods []*v1.Pod
}

// versions are the known versions of a unit. Most units have one.
type versions []version

// of returns the pods of a hash, nil if the version is not known.
func (v versions) of(hash string) []*v1.Pod {
	if at := slices.IndexFunc(v, func(known version) bool { return known.hash == hash }); at >= 0 {
		return v[at].pods
	}
	return nil
}

// openStore opens the folder at dir, and creates a missing folder.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, requestsDir), 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &store{root}, err
}

func (s *store) close() error { return s.dir.Close() }

// load returns all units. An error is about a single folder, which is left alone.
func (s *store) load() (units []*saved, errs []error) {
	entries, err := fs.ReadDir(s.dir.FS(), ".")
	if err != nil {
		return nil, []error{err}
	}
	for _, e := range entries {
		switch {
		case !e.IsDir(), e.Name() == requestsDir:
		case strings.HasPrefix(e.Name(), removedDir):
			if err := s.dir.RemoveAll(e.Name()); err != nil {
				errs = append(errs, err)
			}
		default:
			u, err := s.loadUnit(e.Name())
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(s.dir.Name(), e.Name()), err))
			} else if u != nil {
				units = append(units, u)
			}
		}
	}
	return units, errs
}

// loadUnit reads the folder of a unit. An unreadable record is replaced: in the new record the
// newest version has to pass its gate again, and the version before is Good. The result is nil if
// the folder has no version.
func (s *store) loadUnit(folder string) (*saved, error) {
	u := &saved{}
	data, err := atomicfile.Read(s.dir, path.Join(folder, stateFile), maxState)
	if err == nil {
		err = json.Unmarshal(data, u)
	}
	u.newer = err == nil && u.Format > recordFormat
	u.versions = s.loadVersions(folder)
	if good := u.Good; err == nil && good != "" && u.versions.of(good) == nil {
		err = fmt.Errorf("the manifests of version %s cannot be read", good)
	}
	if err == nil && u.Next != "" && u.Good == "" && u.versions.of(u.Next) == nil {
		err = fmt.Errorf("the manifests of version %s cannot be read", u.Next)
	}
	if err == nil && u.Unit.folder() != folder {
		err = errors.New("the record is that of another unit")
	}
	switch {
	case err == nil:
		return u, nil
	case u.newer:
		return nil, err
	case len(u.versions) == 0:
		return nil, nil // a crash before the first record
	}
	id, ok := parseFolder(folder, u.versions[0].pods)
	if !ok {
		return nil, err
	}
	u.Unit, u.lost = id, err
	u.Record = Record{Phase: Proving, Next: u.versions[0].hash}
	if len(u.versions) > 1 {
		u.Good = u.versions[1].hash
	}
	return u, nil
}

// parseFolder returns the unit of a folder with the pods of a version.
func parseFolder(folder string, pods []*v1.Pod) (id unitID, ok bool) {
	source, _, _ := strings.Cut(folder, "_")
	for _, pod := range pods {
		if id := idOf(source, pod); id.folder() == folder {
			return id, true
		}
	}
	return id, false
}

// loadVersions returns the readable versions of a unit, the newest first.
func (s *store) loadVersions(folder string) (readable versions) {
	dir := path.Join(folder, versionsDir)
	entries, _ := fs.ReadDir(s.dir.FS(), dir)
	times := map[string]time.Time{}
	for _, e := range entries {
		hash, ok := strings.CutSuffix(e.Name(), ".json")
		info, err := e.Info()
		if !ok || err != nil {
			continue
		}
		data, err := atomicfile.Read(s.dir, path.Join(dir, e.Name()), maxVersion)
		var pods []*v1.Pod
		if err != nil || json.Unmarshal(data, &pods) != nil || len(pods) == 0 {
			continue
		}
		if sum, err := hashOf(pods); err != nil || sum != hash {
			continue
		}
		times[hash] = info.ModTime()
		readable = append(readable, version{hash, pods})
	}
	slices.SortFunc(readable, func(a, b version) int { return times[b.hash].Compare(times[a.hash]) })
	return readable
}

// save stores a record, after the versions in the record. Versions that no record names any more
// are removed afterwards.
func (s *store) save(id unitID, r *Record, all versions) error {
	folder := id.folder()
	known := r.Known()
	err := s.write(folder, id, r, known, all)
	if errors.Is(err, syscall.ENOSPC) && s.dir.Remove(reserveFile) == nil {
		err = s.write(folder, id, r, known, all)
	}
	if err != nil {
		return fmt.Errorf("record of the update: %w", err)
	}
	s.prune(folder, known)
	if _, err := s.dir.Lstat(reserveFile); errors.Is(err, fs.ErrNotExist) {
		_ = atomicfile.Create(s.dir, reserveFile, make([]byte, reserveSize), true)
	}
	return nil
}

func (s *store) write(folder string, id unitID, r *Record, known []string, all versions) error {
	if err := s.dir.MkdirAll(path.Join(folder, versionsDir), 0o700); err != nil {
		return err
	}
	for _, hash := range known {
		name := path.Join(folder, versionsDir, hash+".json")
		if _, err := s.dir.Lstat(name); err == nil || all.of(hash) == nil {
			continue
		}
		data, err := json.Marshal(all.of(hash))
		if err == nil {
			err = atomicfile.Write(s.dir, name, data)
		}
		if err != nil {
			return err
		}
	}
	data, err := json.Marshal(&saved{Format: recordFormat, Unit: id, Record: *r})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.dir, path.Join(folder, stateFile), data); err != nil {
		return err
	}
	return atomicfile.SyncDir(s.dir.Name()) // the name of the folder
}

// prune removes versions that no record names.
func (s *store) prune(folder string, known []string) {
	dir := path.Join(folder, versionsDir)
	entries, _ := fs.ReadDir(s.dir.FS(), dir)
	for _, e := range entries {
		if !slices.Contains(known, strings.TrimSuffix(e.Name(), ".json")) {
			_ = s.dir.Remove(path.Join(dir, e.Name()))
		}
	}
}

// remove removes the folder of a unit.
func (s *store) remove(id unitID) error {
	return errors.Join(s.forget(id), s.sync(), s.discard(id))
}

// forget renames the folder of a unit, so that no agent reads the folder any more after the next sync.
func (s *store) forget(id unitID) error {
	_ = s.dir.Remove(path.Join(requestsDir, id.folder()))
	_ = s.discard(id)
	err := s.dir.Rename(id.folder(), removedDir+id.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// discard deletes a folder that forget has renamed.
func (s *store) discard(id unitID) error { return s.dir.RemoveAll(removedDir + id.folder()) }

func (s *store) sync() error { return atomicfile.SyncDir(s.dir.Name()) }

// maxRequest is the largest size of a request in bytes.
const maxRequest = 64

// request returns the hash that a person asks for, "" if there is no request.
func (s *store) request(id unitID) string {
	data, err := atomicfile.Read(s.dir, path.Join(requestsDir, id.folder()), maxRequest)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// answer removes a request.
func (s *store) answer(id unitID) error {
	return atomicfile.Remove(s.dir, path.Join(requestsDir, id.folder()))
}
