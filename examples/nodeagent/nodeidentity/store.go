// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/missing"
)

// The prefixes of the kubelet's files.
const (
	ClientPrefix  = "kubelet-client"
	ServingPrefix = "kubelet-server"
)

// Store keeps a certificate and its key in a folder, in the kubelet's layout: PREFIX-TIME.pem with
// both, and the link PREFIX-current.pem. A reader of the link finds the old or the new pair, also
// after a power cut. Stores with different prefixes may share a folder. A Store belongs to a single
// process.
type Store struct{ dir, prefix string }

// NewStore creates the folder if missing, and completes a replacement that was interrupted.
func NewStore(dir, prefix string) (*Store, error) {
	if dir == "" || prefix == "" {
		return nil, errors.New("nodeidentity: NewStore: dir and prefix are required")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of certificates: %w", err)
	}
	s := &Store{dir, prefix}
	if info, err := os.Lstat(s.CurrentPath()); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil, fmt.Errorf("%s is not a link to a certificate: remove it", s.CurrentPath())
	}
	return s, s.recover()
}

// CurrentPath returns the path of the link to the current pair.
func (s *Store) CurrentPath() string { return s.path("current.pem") }

func (s *Store) path(name string) string { return filepath.Join(s.dir, s.prefix+"-"+name) }

// recover completes or undoes a replacement of the link.
func (s *Store) recover() error {
	updated := s.path("updated.pem")
	if _, err := os.Lstat(updated); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := loadPair(updated); err != nil {
		return os.Remove(updated)
	}
	return os.Rename(updated, s.CurrentPath())
}

// Load returns the current pair, also after its expiry. Without a current pair, Load returns the
// pair of PREFIX.crt and PREFIX.key. Without both, the error is fs.ErrNotExist.
func (s *Store) Load() (*tls.Certificate, error) {
	pair, err := loadPair(s.CurrentPath())
	if errors.Is(err, fs.ErrNotExist) {
		base := filepath.Join(s.dir, s.prefix)
		var old tls.Certificate
		old, err = tls.LoadX509KeyPair(base+".crt", base+".key")
		pair = &old
	}
	if err != nil {
		return nil, fmt.Errorf("stored certificate: %w", err)
	}
	return pair, nil
}

func loadPair(path string) (*tls.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &pair, nil
}

// Save makes the pair the current pair. chain and key are in PEM format. The previous pair stays on
// the disk, and older pairs are removed.
func (s *Store) Save(chain, key []byte, now time.Time) error {
	for _, do := range s.saving(chain, key, now) {
		if err := do(); err != nil {
			return fmt.Errorf("store the certificate: %w", err)
		}
	}
	return nil
}

// saving returns the steps of Save. After each step the link leads to a complete pair.
func (s *Store) saving(chain, key []byte, now time.Time) []func() error {
	file := s.path(now.UTC().Format("2006-01-02-15-04-05") + ".pem")
	updated := s.path("updated.pem")
	return []func() error{
		func() error { return atomicfile.WritePath(file, slices.Concat(chain, key)) },
		func() error { return missing.Ignore(os.Remove(updated)) },
		func() error { return os.Symlink(filepath.Base(file), updated) },
		func() error { return os.Rename(updated, s.CurrentPath()) },
		func() error { return atomicfile.SyncDir(s.dir) },
		s.prune,
	}
}

// keptPairs is the number of the newest pairs that stay on the disk.
const keptPairs = 2

// prune removes all but the newest pairs. The current pair always stays, because the clock may have
// been set back since the pair was saved.
func (s *Store) prune() error {
	all, err := filepath.Glob(s.path("[0-9]*.pem"))
	if err != nil {
		return err
	}
	current, err := os.Readlink(s.CurrentPath())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(b, a) })
	for i, path := range all {
		if i < keptPairs || filepath.Base(path) == filepath.Base(current) {
			continue
		}
		if err := missing.Ignore(os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}

// loadRequest returns the open request, and false without a readable request.
func (s *Store) loadRequest() (request, bool) {
	data, err := os.ReadFile(s.path("request.pem"))
	if err != nil {
		return request{}, false
	}
	r, err := decodeRequest(data)
	return r, err == nil
}

// saveRequest stores the open request, so that a restarted agent waits for the same request.
func (s *Store) saveRequest(r request) error {
	if err := atomicfile.WritePath(s.path("request.pem"), r.encode()); err != nil {
		return fmt.Errorf("store the certificate signing request: %w", err)
	}
	return nil
}

func (s *Store) dropRequest() error { return missing.Ignore(os.Remove(s.path("request.pem"))) }
