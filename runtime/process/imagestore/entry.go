// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Bounds of a path in an image. A tree that exceeds them cannot be made by a file system of Linux,
// or could not be visited with a bounded number of open folders.
const (
	maxPath    = 4095
	maxElement = 255
	maxDepth   = 255
	maxOwner   = 1<<32 - 2
)

// Prefixes of names in layers that are instructions, by the image specification of OCI (1.1).
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // auxiliary files of AUFS, which are left out
	whiteoutOpaque = ".wh..wh..opq"
)

// kind is the type of an entry of a layer.
type kind uint8

const (
	kindFolder   kind = iota + 1
	kindFile          // has content
	kindSymlink       // Link is the target as written, and is never followed outside of the image
	kindHardlink      // Link is the path of another entry, from the image's root
	kindWhiteout      // removes Path of the layers below
	kindOpaque        // removes the content that the layers below have in folder Path
)

// entry is a checked member of a layer.
type entry struct {
	// Path is relative to the image's root, without empty elements, "." and "..". Only for a
	// folder, Path may be empty: the root.
	Path string
	Kind kind
	Mode fs.FileMode `json:",omitempty"` // permissions
	Link string      `json:",omitempty"`
	UID  int         `json:",omitempty"`
	GID  int         `json:",omitempty"`
	// Content is the number of the content of a file within the layer.
	Content int `json:",omitempty"`
}

// errEscapes: a path leads out of the image.
var errEscapes = errors.New(`it contains ".."`)

// cleanPath returns the path without empty elements and ".". A path with "..", or a path that no
// file system can have, is an error. A leading slash means the image's root.
func cleanPath(name string) (string, error) {
	if strings.Contains(name, "\x00") {
		return "", errors.New("it contains a NUL byte")
	}
	elements := strings.Split(name, "/")
	elements = slices.DeleteFunc(elements, func(e string) bool { return e == "" || e == "." })
	for _, e := range elements {
		switch {
		case e == "..":
			return "", errEscapes
		case len(e) > maxElement:
			return "", fmt.Errorf("an element is longer than %d bytes", maxElement)
		}
	}
	clean := strings.Join(elements, "/")
	switch {
	case len(clean) > maxPath:
		return "", fmt.Errorf("it is longer than %d bytes", maxPath)
	case len(elements) > maxDepth:
		return "", fmt.Errorf("it has more than %d elements", maxDepth)
	}
	return clean, nil
}

// classify returns the entry of a member of a layer, without the number of its content. If ok is
// false, the member is left out: a device, a fifo, a header for other members, or an auxiliary file
// of AUFS.
func classify(h *tar.Header) (e entry, ok bool, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return entry{}, false, nil
	}
	if e.Path, err = cleanPath(h.Name); err != nil {
		return entry{}, false, fmt.Errorf("path %.100q: %w", h.Name, err)
	}
	if whiteout, ok, err := instruction(e.Path); ok || err != nil {
		return whiteout, whiteout.Kind != 0, err
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > maxOwner || int64(h.Gid) > maxOwner {
		return entry{}, false, fmt.Errorf("path %.100q: no file belongs to %d:%d", e.Path, h.Uid, h.Gid)
	}
	e.Mode, e.UID, e.GID = permissions(h), h.Uid, h.Gid
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = kindFolder
		return e, true, nil
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		e.Kind = kindFile
	case tar.TypeSymlink:
		e.Kind, e.Mode, e.Link = kindSymlink, 0, h.Linkname
		if e.Link == "" || len(e.Link) > maxPath || strings.Contains(e.Link, "\x00") {
			return entry{}, false, fmt.Errorf("link %.100q: no file can be at its target %.100q", e.Path, e.Link)
		}
	case tar.TypeLink:
		e.Kind, e.Mode = kindHardlink, 0
		if e.Link, err = cleanPath(h.Linkname); err != nil {
			return entry{}, false, fmt.Errorf("hard link %.100q: path %.100q: %w", e.Path, h.Linkname, err)
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return entry{}, false, nil
	default:
		return entry{}, false, fmt.Errorf("path %.100q: type %q of a member is not known", e.Path, h.Typeflag)
	}
	if e.Path == "" {
		return entry{}, false, errors.New("the image's root is not a folder")
	}
	return e, true, nil
}

// instruction returns the entry of a path whose last element is an instruction. For an auxiliary
// file the entry is zero.
func instruction(path string) (e entry, ok bool, err error) {
	folder, base := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folder, base = path[:i], path[i+1:]
	}
	removed, ok := strings.CutPrefix(base, whiteoutPrefix)
	switch {
	case !ok:
		return entry{}, false, nil
	case base == whiteoutOpaque:
		return entry{Path: folder, Kind: kindOpaque}, true, nil
	case strings.HasPrefix(base, whiteoutMeta):
		return entry{}, true, nil
	case removed == "" || removed == "." || removed == "..":
		return entry{}, false, fmt.Errorf("path %.100q: there is no such file to remove", path)
	}
	return entry{Path: strings.TrimPrefix(folder+"/"+removed, "/"), Kind: kindWhiteout}, true, nil
}

// permissions returns the mode of a member. The bits setuid and setgid are left out, because every
// container sets no_new_privs or has a single user. The owner may always read, and may change
// folders, so that an agent without root can unpack and remove the image.
func permissions(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	if h.Typeflag == tar.TypeDir {
		if h.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		return mode | 0o700
	}
	return mode | 0o400
}
