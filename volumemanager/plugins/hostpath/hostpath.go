// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Name is the name of the plugin.
const Name = "kubernetes.io/host-path"

// ErrType reports that the file at the path does not have the volume's type.
var ErrType = errors.New("hostPath type check failed")

const (
	newDirMode  = 0o755
	newFileMode = 0o644
)

// Options are the options of New. There are no options yet.
type Options struct{}

// Plugin implements volumemanager.Plugin. See New.
type Plugin struct{}

// New returns a plugin. The error is always nil.
func New(Options) (*Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports reports whether s is a hostPath volume, of a pod or persistent.
func (*Plugin) Supports(s volumemanager.Spec) bool { return source(s) != nil }

func source(s volumemanager.Spec) *v1.HostPathVolumeSource {
	switch {
	case s.PV != nil:
		return s.PV.Spec.HostPath
	case s.Volume != nil:
		return s.Volume.HostPath
	}
	return nil
}

// SetUp checks the type of the file at the path, and creates the path for a type …OrCreate. Without
// a type, SetUp does not access the path.
func (*Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	want := source(m.Spec)
	fail := func(err error) (volumemanager.Mounted, error) {
		return volumemanager.Mounted{}, fmt.Errorf("volume %q: %w", m.Spec.InnerName(), err)
	}
	if want == nil {
		return fail(volumemanager.Terminal(errors.New("is no hostPath volume")))
	}
	if !filepath.IsAbs(want.Path) || slices.Contains(strings.Split(want.Path, "/"), "..") || strings.IndexByte(want.Path, 0) >= 0 {
		return fail(volumemanager.Terminal(fmt.Errorf("path %q must be absolute and have no \"..\"", want.Path)))
	}
	if ctx.Err() != nil {
		return fail(volumemanager.Transient(context.Cause(ctx)))
	}
	kind := v1.HostPathUnset
	if want.Type != nil {
		kind = *want.Type
	}
	if err := check(want.Path, kind); err != nil {
		// The path may be created later; SetUp has left nothing for a TearDown to undo.
		return fail(volumemanager.Final(err))
	}
	return volumemanager.Mounted{Path: filepath.Clean(want.Path), ReadOnly: m.Spec.ReadOnly}, nil
}

// TearDown does nothing, because the path belongs to the node.
func (*Plugin) TearDown(context.Context, volumemanager.Unmount) error { return nil }

// words maps each type to its name in errors and to a test of the file mode.
var words = map[v1.HostPathType]struct {
	name string
	is   func(fs.FileMode) bool
}{
	v1.HostPathDirectory: {"directory", fs.FileMode.IsDir},
	v1.HostPathFile:      {"file", fs.FileMode.IsRegular},
	v1.HostPathSocket:    {"socket file", func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }},
	v1.HostPathCharDev:   {"character device", func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }},
	v1.HostPathBlockDev: {"block device", func(m fs.FileMode) bool {
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
	}},
}

// check compares the file at path with the type, and creates the path for a type …OrCreate.
func check(path string, kind v1.HostPathType) error {
	make := func(string) error { return nil }
	switch kind {
	case v1.HostPathUnset:
		return nil
	case v1.HostPathDirectoryOrCreate:
		kind, make = v1.HostPathDirectory, makeDir
	case v1.HostPathFileOrCreate:
		kind, make = v1.HostPathFile, makeFile
	}
	word, ok := words[kind]
	if !ok {
		return fmt.Errorf("%q is an invalid volume type", kind)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := make(path); err != nil {
			return fmt.Errorf("make %s: %w", path, tree.Cause(err))
		}
		info, err = os.Stat(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: %w", ErrType, path, tree.Cause(err))
	}
	if err != nil || !word.is(info.Mode()) {
		return fmt.Errorf("%w: %s is not a %s", ErrType, path, word.name)
	}
	return nil
}

func makeDir(path string) error { return os.MkdirAll(path, newDirMode) }

// makeFile creates a file in an existing folder.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, newFileMode)
	if errors.Is(err, fs.ErrExist) { // another pod was faster, or path is a dangling link, which check finds
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
