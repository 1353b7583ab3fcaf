// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slashpath "path"

	"github.com/klauspost/compress/zstd"
)

// Bounds of an archive.
const (
	maxMembers  = 10_000
	maxDocument = 8 << 20  // bytes of an index, a manifest or a configuration
	maxKept     = 32 << 20 // bytes of the documents of a compressed archive in memory
)

// members are the files of an archive.
type members interface {
	// open opens a file by its path. The error is fs.ErrNotExist for a missing file.
	open(name string) (io.ReadCloser, error)
}

// folderMembers are the files of an image layout that is a folder, by the folder's path.
type folderMembers string

func (f folderMembers) open(name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return root.Open(name)
}

// tarMembers are the files of a tar file. A file of an uncompressed archive is read in its place. A
// compressed archive is read from its beginning for each file, but small documents stay in memory.
type tarMembers struct {
	path string
	info fs.FileInfo // of the file that was listed
	at   map[string]place
	kept int // bytes of all documents in memory
}

// place is where a member's content is in the uncompressed archive.
type place struct {
	offset, size int64
	document     []byte // the content, or nil
}

// openTar lists the members of a tar file, and adds their digests to all, unless all is nil.
func openTar(ctx context.Context, path string, all sums) (*tarMembers, error) {
	t := &tarMembers{path: path, at: map[string]place{}}
	in, err := t.stream()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	count := &counter{from: in}
	reader := tar.NewReader(count)
	for n := 0; ; n++ {
		h, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case n == maxMembers:
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		name := slashpath.Clean(h.Name)
		_, twice := t.at[name]
		switch {
		case h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case !fs.ValidPath(name):
			return nil, fmt.Errorf("the member %.100q is outside of the archive", h.Name)
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("the member %.100q is no regular file", h.Name)
		case twice:
			return nil, fmt.Errorf("the member %.100q comes twice", h.Name)
		}
		at, content := place{offset: count.n, size: h.Size}, io.Reader(reader)
		if !count.seeks() && h.Size <= maxDocument {
			raw, err := io.ReadAll(reader)
			if err != nil {
				return nil, fmt.Errorf("%.100q: %w", name, err)
			}
			if t.kept+len(raw) <= maxKept && (bytes.HasPrefix(raw, []byte("{")) || bytes.HasPrefix(raw, []byte("["))) {
				at.document = raw
				t.kept += len(raw)
			}
			content = bytes.NewReader(raw)
		}
		t.at[name] = at
		if all != nil {
			if err := all.add(ctx, name, content); err != nil {
				return nil, err
			}
		}
	}
}

// errChanged: the file is not the file that was listed.
var errChanged = errors.New("the file changed while it was read")

// stream opens the uncompressed tar file. The first call keeps the identity of the file, later calls
// compare it, and every stream compares it at its end.
func (t *tarMembers) stream() (io.ReadCloser, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case t.info == nil:
		t.info = info
	case !same(t.info, info):
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return decompressed(f)
}

// same reports whether a file is neither replaced nor written.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (t *tarMembers) open(name string) (io.ReadCloser, error) {
	at, ok := t.at[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if at.document != nil {
		return io.NopCloser(bytes.NewReader(at.document)), nil
	}
	in, err := t.stream()
	if err != nil {
		return nil, fmt.Errorf("image archive %s: %w", t.path, err)
	}
	if seeker, ok := in.(io.Seeker); ok {
		_, err = seeker.Seek(at.offset, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, in, at.offset)
	}
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return &member{part{io.LimitReader(in, at.size), in}, t}, nil
}

// member reads a member. At its end, a file that changed meanwhile is an error.
type member struct {
	part
	of *tarMembers
}

func (m *member) Read(p []byte) (int, error) {
	n, err := m.part.Read(p)
	if err != nil {
		if info, statErr := os.Stat(m.of.path); statErr != nil || !same(m.of.info, info) {
			err = fmt.Errorf("image archive %s: %w", m.of.path, errChanged)
		}
	}
	return n, err
}

// part is a part of a stream.
type part struct {
	io.Reader
	io.Closer
}

// counter counts the bytes that are read. A seek of the tar reader counts, too.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) seeks() bool { _, ok := c.from.(io.Seeker); return ok }

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// Seek moves an uncompressed archive forward. The tar reader skips content by Seek if it can.
func (c *counter) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := c.from.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	at, err := seeker.Seek(offset, whence)
	if err == nil {
		c.n = at
	}
	return at, err
}

// decompressed reads a file through gzip or zstd by the file's first bytes. An uncompressed file can
// seek. After an error f is closed.
func decompressed(f *os.File) (io.ReadCloser, error) {
	start := make([]byte, 4)
	n, _ := f.ReadAt(start, 0) // a shorter file is no archive, as the tar reader finds out
	plain, err := plainReader(start[:n], f)
	switch {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case plain == nil:
		return f, nil
	}
	return part{plain, f}, nil
}

// plainReader returns the reader of a stream compressed with gzip or zstd, nil for other streams. start
// are the stream's first bytes. The reader has no goroutine, and need not be closed.
func plainReader(start []byte, in io.Reader) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return gzip.NewReader(bufio.NewReader(in))
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20))
	}
	return nil, nil
}

// document reads a small file of an archive.
func document(m members, name string) ([]byte, error) {
	in, err := m.open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("more than %d bytes", maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}
