// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds of an archive.
const (
	maxMembers  = 10_000
	maxDocument = 8 << 20 // bytes of an index, a manifest or a configuration
)

// members are the files of an archive.
type members interface {
	// open opens a file by its path. The error is fs.ErrNotExist for a missing file.
	open(name string) (io.ReadCloser, error)
	close() error
}

// folderMembers are the files of an image layout that is a folder.
type folderMembers struct{ root *os.Root }

func (f folderMembers) open(name string) (io.ReadCloser, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return f.root.Open(name)
}

func (f folderMembers) close() error { return f.root.Close() }

// tarMembers are the files of a tar file. A file of an uncompressed archive is read in its place. A
// compressed archive is read from its beginning for each file.
type tarMembers struct {
	path string
	at   map[string]place
}

// place is where a member's content is in the uncompressed archive.
type place struct{ offset, size int64 }

// openTar lists the members of a tar file.
func openTar(path string) (*tarMembers, error) {
	in, err := decompressed(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t := &tarMembers{path: path, at: map[string]place{}}
	count := &counter{from: in}
	reader := tar.NewReader(count)
	for n := 0; ; n++ {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		if n == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		name := strings.TrimPrefix(h.Name, "./")
		if h.Typeflag == tar.TypeReg && fs.ValidPath(name) {
			t.at[name] = place{count.n, h.Size}
		}
	}
}

func (t *tarMembers) open(name string) (io.ReadCloser, error) {
	at, ok := t.at[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	in, err := decompressed(t.path)
	if err != nil {
		return nil, err
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
	return part{io.LimitReader(in, at.size), in}, nil
}

func (t *tarMembers) close() error { return nil }

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

// decompressed opens a file, and reads through gzip or zstd by the file's first bytes. An
// uncompressed file can seek.
func decompressed(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	start := make([]byte, 4)
	n, _ := io.ReadFull(f, start) // a shorter file is no archive, as the tar reader finds out
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, err
	}
	switch start = start[:n]; {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		plain, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return part{plain, f}, nil
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		plain, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20))
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return &zstdFile{plain, f}, nil
	}
	return f, nil
}

// zstdFile is a file that is read through zstd.
type zstdFile struct {
	*zstd.Decoder
	file *os.File
}

// Close closes the decoder and the file.
func (z *zstdFile) Close() error {
	z.Decoder.Close()
	return z.file.Close()
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
