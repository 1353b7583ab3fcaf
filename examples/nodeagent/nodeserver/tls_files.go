// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

const (
	// maxTLSFile is the limit for the size of a file with certificates or a key, in bytes.
	maxTLSFile = 4 << 20
	// rereadAfter is how long unchanged sizes, times and inodes of files are believed.
	rereadAfter = time.Minute
)

// KeyPair returns the certificate and the key in two files, for TLSOptions.Certificate. The files are
// looked at in each handshake and read again after a change. While the files do not fit each other or
// cannot be read, the last good pair is used, and the error is logged once. The first pair must be
// readable.
func KeyPair(certFile, keyFile string, log *zap.Logger) (func() (*tls.Certificate, error), error) {
	pair := reloading[*tls.Certificate]{log: log, paths: []string{certFile, keyFile}, parse: func(data [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(data[0], data[1])
		return &pair, err
	}}
	if err := pair.load(); err != nil {
		return nil, fmt.Errorf("certificate of the server: %w", err)
	}
	return func() (*tls.Certificate, error) { return pair.current(), nil }, nil
}

// Authorities returns the certificates in a file, for TLSOptions.ClientAuthorities and Certificates.
// The file is read again after a change, as with KeyPair. The first content must be readable.
func Authorities(file string, log *zap.Logger) (func() *x509.CertPool, error) {
	pool := reloading[*x509.CertPool]{log: log, paths: []string{file}, parse: func(data [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data[0]) {
			return nil, errors.New("no certificate in PEM format")
		}
		return pool, nil
	}}
	if err := pool.load(); err != nil {
		return nil, fmt.Errorf("authorities of clients: %w", err)
	}
	return pool.current, nil
}

// reloading is a value made of the contents of files.
type reloading[T any] struct {
	paths []string
	parse func([][]byte) (T, error) // its errors must not contain a key
	log   *zap.Logger

	mu struct {
		sync.Mutex
		value T
		seen  []stamp // of the last attempt, also if it failed
		read  time.Time
	}
}

// stamp changes when another file is put in the place of a file, or its content is changed.
type stamp struct {
	size   int64
	change time.Time
	device uint64
	inode  uint64
}

// current returns the value of the files as they are, or else the last good value.
func (r *reloading[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := stamps(r.paths)
	isChanged := !slices.Equal(seen, r.mu.seen)
	if isChanged || time.Since(r.mu.read) >= rereadAfter {
		if err := r.loadLocked(); err != nil && isChanged {
			r.log.Warn("cannot use changed certificate files; the last good content is used", zap.Strings("files", r.paths), zap.Error(err))
		}
		r.mu.seen, r.mu.read = seen, time.Now()
	}
	return r.mu.value
}

// load reads the files for the first time.
func (r *reloading[T]) load() error {
	r.log = cmp.Or(r.log, zap.NewNop())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.seen, r.mu.read = stamps(r.paths), time.Now()
	return r.loadLocked()
}

func (r *reloading[T]) loadLocked() error {
	data := make([][]byte, len(r.paths))
	for i, path := range r.paths {
		var err error
		if data[i], err = readTLSFile(path); err != nil {
			return err
		}
	}
	value, err := r.parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", r.paths[0], err)
	}
	r.mu.value = value
	return nil
}

// stamps returns the stamp of each file, zero for a file that cannot be looked at. Links are followed.
func stamps(paths []string) []stamp {
	list := make([]stamp, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		list[i] = stamp{size: info.Size(), change: info.ModTime()}
		if system, ok := info.Sys().(*syscall.Stat_t); ok {
			list[i].device, list[i].inode = uint64(system.Dev), system.Ino
		}
	}
	return list
}

// readTLSFile returns the content of a regular file of bounded size. Links are followed, also out of
// their folder.
func readTLSFile(path string) ([]byte, error) {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return atomicfile.ReadPath(file, maxTLSFile)
}
