// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// maxRecord bounds the size of a record that is read, in bytes.
const maxRecord = 256 << 20

// A record of a name is the file names/<digest of the name>. Each name has a file, so that two
// agents never overwrite each other's names.
type nameRecord struct {
	Name string // canonical, see canonical
	ID   string // of the image
}

// canonical returns the complete form of a reference, with a registry, and with a tag or a digest.
// A digest has precedence over a tag. Names that are equal for a registry are equal here: "app",
// "docker.io/library/app" and "index.docker.io/library/app:latest".
func canonical(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	return parsed, nil
}

func nameFile(canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return hex.EncodeToString(sum[:])
}

// saveName makes a name refer to an image. After a power cut the name refers to the earlier image
// or to this image.
func saveName(names *os.Root, canonical, id string) error {
	file := nameFile(canonical)
	if old, err := readJSON[nameRecord](names, file); err == nil && old == (nameRecord{canonical, id}) {
		return nil
	}
	raw, err := json.Marshal(nameRecord{canonical, id})
	if err != nil {
		return err
	}
	return atomicfile.Write(names, file, raw)
}

// findName returns the ID of the image with the name, or "".
func findName(names *os.Root, canonical string) (string, error) {
	rec, err := readJSON[nameRecord](names, nameFile(canonical))
	if absent(err) {
		return "", nil
	}
	return rec.ID, err
}

// listNames returns all names by the ID of their image. A record that cannot be read is left out:
// the next pull of the name writes the record anew.
func listNames(names *os.Root) (map[string][]string, error) {
	files, err := list(names)
	byID := map[string][]string{}
	for _, file := range files {
		rec, err := readJSON[nameRecord](names, file)
		if err == nil && nameFile(rec.Name) == file {
			byID[rec.ID] = append(byID[rec.ID], rec.Name)
		}
	}
	return byID, err
}

// removeNames removes the names of an image.
func removeNames(names *os.Root, id string) error {
	byID, err := listNames(names)
	errs := []error{err}
	for _, n := range byID[id] {
		errs = append(errs, atomicfile.Remove(names, nameFile(n)))
	}
	return errors.Join(errs...)
}

// errBroken: a fault of the disk, or another program, has damaged a record.
var errBroken = errors.New("the record is broken")

// absent reports whether the error of readJSON means that there is no usable record. The next pull
// writes the record anew.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBroken) }

// readJSON reads a record.
func readJSON[T any](dir *os.Root, file string) (T, error) {
	var v, none T
	raw, err := atomicfile.Read(dir, file, maxRecord)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", file, err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return none, fmt.Errorf("read %s: %w: %w", file, errBroken, err)
	}
	return v, nil
}
