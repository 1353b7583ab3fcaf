// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strconv"
	"time"
)

// Names in the folder of a layer.
const (
	entriesFile  = "entries.json"
	contentsName = "contents"
)

// layer is the record of an unpacked layer. The content of entry i's file is in the file
// contents/<Content>.
type layer struct {
	Entries []entry
	Size    int64 // bytes of all contents
}

// errTooBig is the error of an image that is bigger than maxSize.
var errTooBig = errors.New("the image is too big")

// budget has the bytes and entries that the remaining layers of an image may have.
type budget struct {
	bytes   int64 // of the uncompressed layers
	entries int
}

// unpack writes the members of an uncompressed layer to dir, which is empty. Members get numbers as
// names of files, so that no name of a layer reaches the file system here. diffID is the expected
// digest of the stream.
func unpack(ctx context.Context, dir *os.Root, from io.Reader, diffID string, left *budget) (layer, error) {
	var l layer
	if err := dir.Mkdir(contentsName, 0o700); err != nil {
		return l, err
	}
	contents, err := dir.OpenRoot(contentsName)
	if err != nil {
		return l, err
	}
	defer contents.Close()
	in := &meter{ctx: ctx, from: from, left: &left.bytes, sum: sha256.New()}
	if err := unpackEntries(contents, tar.NewReader(in), &l, left); err != nil {
		return l, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the padding behind the last member
		return l, err
	}
	if got := "sha256:" + hex.EncodeToString(in.sum.Sum(nil)); got != diffID {
		return l, fmt.Errorf("its content has the digest %s", got)
	}
	raw, err := json.Marshal(l)
	if err == nil {
		err = dir.WriteFile(entriesFile, raw, 0o600)
	}
	return l, err
}

// unpackEntries reads all members of a layer.
func unpackEntries(contents *os.Root, members *tar.Reader, l *layer, left *budget) error {
	for {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, ok, err := classify(h)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if left.entries--; left.entries < 0 {
			return errTooMany
		}
		if e.Kind == kindFile {
			e.Content = len(l.Entries)
			n, err := writeContent(contents, e, h.ModTime, members)
			if err != nil {
				return fmt.Errorf("path %.100q: %w", e.Path, err)
			}
			l.Size += n
		}
		l.Entries = append(l.Entries, e)
	}
}

// writeContent writes the content of a file, and returns the size.
func writeContent(contents *os.Root, e entry, modified time.Time, from io.Reader) (int64, error) {
	f, err := contents.OpenFile(strconv.Itoa(e.Content), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, from)
	if err == nil && owned() {
		err = f.Chown(e.UID, e.GID)
	}
	if err == nil {
		err = f.Chmod(e.Mode) // unlike at the creation, regardless of the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return n, err
	}
	return n, contents.Chtimes(strconv.Itoa(e.Content), modified, modified)
}

// contentPath returns the path of a file's content within a layer's folder.
func contentPath(content int) string { return path.Join(contentsName, strconv.Itoa(content)) }

// meter reads a layer, computes the digest, and fails after the end of ctx or of the budget. A
// layer of a few bytes can be a bomb that unpacks to any size.
type meter struct {
	ctx  context.Context
	from io.Reader
	left *int64
	sum  hash.Hash
}

func (m *meter) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.from.Read(p)
	m.sum.Write(p[:n])
	if *m.left -= int64(n); *m.left < 0 {
		return 0, errTooBig
	}
	return n, err
}
