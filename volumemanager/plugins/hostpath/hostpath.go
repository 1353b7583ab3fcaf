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

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
)

// Name is the plugin's.
const Name = "kubernetes.io/host-path"

// ErrType says that what is at the path is not what the volume's type asks for.
var ErrType = errors.New("hostPath type check failed")

const (
	newDirMode  = 0o755
	newFileMode = 0o644
)

// Options are the options of New. There is none yet.
type Options struct{}

// Plugin is a volumemanager.Plugin. See New.
type Plugin struct{}

// New returns a plugin. There is no error yet.
func New(Options) (*Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports says so of hostPath volumes, of pods and persistent ones.
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

// SetUp checks that the path is what the type says, or makes it. It does not look at the path if there is no type.
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
		// The node may get it later; nothing was touched that a TearDown would undo.
		return fail(volumemanager.Final(err))
	}
	return volumemanager.Mounted{Path: filepath.Clean(want.Path), ReadOnly: m.Spec.ReadOnly}, nil
}

// TearDown does nothing: all is the node's.
func (*Plugin) TearDown(context.Context, volumemanager.Unmount) error { return nil }

// words are what the types are called in errors, and how to tell them.
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

// check compares what is at path with what the type asks for, and makes it if the type says so.
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

// makeFile makes a file in a folder that must be there.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, newFileMode)
	if errors.Is(err, fs.ErrExist) { // another pod was quicker, or a link leads nowhere, which the caller finds out
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
