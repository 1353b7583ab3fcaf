// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/keylock"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/ownership"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Name is the name of the plugin.
const Name = "kubernetes.io/local-volume"

const (
	mountsDir = "plugins/kubernetes.io/local-volume/mounts"
	dirMode   = 0o750
)

// Options are the options of New. The zero value is valid.
type Options struct {
	// Mounter binds and mounts. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// Plugin implements volumemanager.Plugin, DeviceMounter, Expander and BlockMapper. See New.
type Plugin struct {
	mounter mount.Mounter
	run     func(ctx context.Context, name string, args ...string) ([]byte, error) // mkfs, resize2fs or xfs_growfs; returns the output
	turns   keylock.Locks[string]                                                  // by PV
}

// New returns a plugin. The error is always nil.
func New(o Options) (*Plugin, error) {
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Plugin{mounter: o.Mounter, run: runCommand}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports reports whether s is a local persistent volume.
func (*Plugin) Supports(s volumemanager.Spec) bool { return s.PV != nil && s.PV.Spec.Local != nil }

// VolumeID returns the name of the PV.
func (*Plugin) VolumeID(s volumemanager.Spec) (string, error) {
	if s.PV == nil {
		return "", errors.New("is no persistent volume")
	}
	return s.PV.Name, nil
}

// pathOf returns the folder or device of a volume.
func pathOf(s volumemanager.Spec) (string, error) {
	if s.PV == nil || s.PV.Spec.Local == nil {
		return "", volumemanager.Terminal(errors.New("is no local volume"))
	}
	p := s.PV.Spec.Local.Path
	if !filepath.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") || strings.IndexByte(p, 0) >= 0 {
		return "", volumemanager.Terminal(fmt.Errorf("path %q must be absolute and have no \"..\"", p))
	}
	return filepath.Clean(p), nil
}

// SetUp binds the folder, or the mounted device, to the pod's folder.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	back, err := p.turns.Lock(ctx, m.Spec.InnerName())
	if err != nil {
		return volumemanager.Mounted{}, volumedir.Named(m.Spec.InnerName(), volumemanager.Transient(err))
	}
	defer back()
	mounted, err := p.setUp(ctx, m)
	return mounted, volumedir.Named(m.Spec.InnerName(), err)
}

func (p *Plugin) setUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	ro := m.Spec.ReadOnly
	out := volumemanager.Mounted{Path: m.Dir(), ReadOnly: ro, Managed: !ro, SELinuxRelabel: !ro}
	source, err := p.source(m)
	if err != nil {
		return out, err
	}
	options := append([]string{"bind"}, m.Spec.PV.Spec.MountOptions...)
	if ro {
		options = append(options, "ro")
	}
	if have, mounted, err := p.mounter.At(m.Dir()); err != nil || mounted {
		return out, errors.Join(err, p.restrict(ctx, have, options))
	}
	if _, err := os.Readlink(m.Dir()); err == nil {
		return out, nil // set up by an agent that cannot mount
	}
	others, err := p.others(m.Place)
	if err != nil {
		return out, err
	}
	// Apply the group before the bind, because a bound folder counts as having the group.
	if m.FSGroup != nil && !ro && len(others) == 0 {
		if err := applyGroup(ctx, source, m); err != nil {
			return out, err
		}
	}
	dir, _, err := volumedir.Make(m.Place, 0o750)
	if err != nil {
		return out, tree.Cause(err)
	}
	dir.Close()
	err = p.mounter.Mount(ctx, mount.Request{Source: source, Target: m.Dir(), Options: options})
	if errors.Is(err, mount.ErrUnsupported) {
		return out, link(m.Place, source)
	}
	return out, err
}

// restricting are the options that a bind mount gets in a second mount call.
var restricting = []string{"ro", "nosuid", "nodev", "noexec"}

// restrict adds missing options to a mount. They are missing if the agent was killed between
// binding the folder and making it read-only. The mount stays in place.
func (p *Plugin) restrict(ctx context.Context, have mount.Info, options []string) error {
	has := strings.Split(have.Options, ",")
	if !slices.ContainsFunc(options, func(o string) bool { return slices.Contains(restricting, o) && !slices.Contains(has, o) }) {
		return nil
	}
	err := p.mounter.Mount(ctx, mount.Request{Target: have.Target, Options: append([]string{"remount"}, options...)})
	if errors.Is(err, mount.ErrUnsupported) {
		return nil // mounted by an earlier agent that could mount
	}
	return err
}

// source returns the folder to bind.
func (p *Plugin) source(m volumemanager.Mount) (string, error) {
	path, err := pathOf(m.Spec)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", volumemanager.Transient(fmt.Errorf("path %s: %w", path, tree.Cause(err)))
	case info.IsDir():
		return path, nil
	case m.DeviceDir == "":
		return "", volumemanager.Terminal(fmt.Errorf("path %s is no directory", path))
	}
	if _, mounted, err := p.mounter.At(m.DeviceDir); err != nil || !mounted {
		return "", errors.Join(err, volumemanager.Transient(fmt.Errorf("device %s is not mounted", path)))
	}
	return m.DeviceDir, nil
}

// others returns the mount points of the volume in other pods.
func (p *Plugin) others(at volumemanager.Place) ([]string, error) {
	mounts, err := p.mounter.List()
	if err != nil {
		return nil, err
	}
	suffix := filepath.Join("volumes", volumemanager.EscapePluginName(Name), at.Inner)
	var out []string
	for _, m := range mounts {
		pod, ok := strings.CutSuffix(m.Target, string(filepath.Separator)+suffix)
		if ok && filepath.Dir(pod) == filepath.Join(at.Root, "pods") && m.Target != at.Dir() {
			out = append(out, m.Target)
		}
	}
	return out, nil
}

func applyGroup(ctx context.Context, dir string, m volumemanager.Mount) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return tree.Cause(err)
	}
	defer root.Close()
	return ownership.Apply(ctx, root, ".", ownership.Request{Group: *m.FSGroup, Policy: m.ChangePolicy})
}

// link replaces the pod's empty folder by a link.
func link(p volumemanager.Place, target string) error {
	if err := volumedir.RemoveEmpty(p); err != nil {
		return tree.Cause(err)
	}
	return os.Symlink(target, p.Dir())
}

// TearDown unmounts and removes the pod's folder. The folder must be empty after the unmount,
// because TearDown removes no content.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	err := u.Check()
	if err == nil {
		err = p.mounter.Unmount(ctx, u.Dir())
	}
	if err == nil {
		err = volumedir.RemoveEmpty(u.Place)
	}
	return volumedir.Named(u.Inner, err)
}

// isBlockDevice reports whether path is a block device.
func isBlockDevice(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, volumemanager.Transient(fmt.Errorf("path %s: %w", path, tree.Cause(err)))
	}
	return info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0, nil
}
