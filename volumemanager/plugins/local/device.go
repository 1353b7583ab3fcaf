// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// DeviceDir returns plugins/kubernetes.io/local-volume/mounts/<pv>, also for a folder volume: only
// the file at the path distinguishes a folder from a device.
func (*Plugin) DeviceDir(root string, s volumemanager.Spec) (string, error) {
	name := s.InnerName()
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", fmt.Errorf("persistent volume %q: its name is no path element", name)
	}
	if s.Block() {
		return "", nil
	}
	return filepath.Join(root, mountsDir, name), nil
}

// MountDevice mounts the volume if it is a block device. A device of zeros is formatted before.
func (p *Plugin) MountDevice(ctx context.Context, d volumemanager.Device) error {
	return volumedir.Named(d.Spec.InnerName(), p.mountDevice(ctx, d))
}

func (p *Plugin) mountDevice(ctx context.Context, d volumemanager.Device) error {
	path, err := pathOf(d.Spec)
	if err != nil {
		return err
	}
	block, err := isBlockDevice(path)
	if err != nil || !block {
		return err // a folder needs no staging
	}
	if _, none := p.mounter.(mount.None); none {
		return volumemanager.Terminal(fmt.Errorf("device %s: %w", path, mount.ErrUnsupported))
	}
	if _, mounted, err := p.mounter.At(d.Dir); err != nil || mounted {
		return err
	}
	fsType := "ext4"
	if t := d.Spec.PV.Spec.Local.FSType; t != nil && *t != "" {
		fsType = *t
	}
	if err := p.format(ctx, path, fsType); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, dirMode); err != nil {
		return tree.Cause(err)
	}
	options := d.Spec.PV.Spec.MountOptions
	if d.Spec.ReadOnly {
		options = append([]string{"ro"}, options...)
	}
	return p.mounter.Mount(ctx, mount.Request{Source: path, Target: d.Dir, Type: fsType, Options: options})
}

// format makes a file system on a device with only zeros in the probed areas.
func (p *Plugin) format(ctx context.Context, device, fsType string) error {
	if fsType == "" || strings.ContainsAny(fsType, "/. -") {
		return volumemanager.Terminal(fmt.Errorf("file system type %q is no name", fsType))
	}
	have, err := probe(device)
	switch {
	case err != nil:
		return fmt.Errorf("device %s: %w", device, err)
	case have == fsType || have == "ext4" && (fsType == "ext2" || fsType == "ext3"):
		return nil
	case have != nothing:
		return volumemanager.Terminal(fmt.Errorf("device %s holds %s, not %s; it is not formatted", device, have, fsType))
	}
	args := []string{device}
	if strings.HasPrefix(fsType, "ext") {
		args = []string{"-F", "-m0", device}
	}
	if out, err := p.run(ctx, "mkfs."+fsType, args...); err != nil {
		return fmt.Errorf("format device %s: %w: %s", device, err, lastLine(out))
	}
	return nil
}

// UnmountDevice unmounts the volume and removes the folder. It refuses while a pod still has the
// volume mounted.
func (p *Plugin) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	return volumedir.Named(d.Spec.InnerName(), p.unmountDevice(ctx, d))
}

func (p *Plugin) unmountDevice(ctx context.Context, d volumemanager.Device) error {
	// Refuse any other folder, because a record may be wrong.
	if filepath.Dir(d.Dir) != filepath.Join(d.Root, mountsDir) {
		return volumemanager.Terminal(fmt.Errorf("%s is not below %s", d.Dir, mountsDir))
	}
	info, mounted, err := p.mounter.At(d.Dir)
	if err != nil {
		return err
	}
	if mounted {
		if err := p.unreferenced(info); err != nil {
			return err
		}
		if err := p.mounter.Unmount(ctx, d.Dir); err != nil {
			return err
		}
	}
	if err := os.Remove(d.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unreferenced returns an error if the file system has another mount.
func (p *Plugin) unreferenced(of mount.Info) error {
	mounts, err := p.mounter.List()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.Major == of.Major && m.Minor == of.Minor && m.Target != of.Target {
			return fmt.Errorf("%s is still mounted at %s", of.Source, m.Target)
		}
	}
	return nil
}

// Expand grows the file system on a device to the size of the device. For a folder, Expand does
// nothing.
func (p *Plugin) Expand(ctx context.Context, e volumemanager.Expansion) error {
	path, err := pathOf(e.Spec)
	if err != nil {
		return volumedir.Named(e.Spec.InnerName(), err)
	}
	block, err := isBlockDevice(path)
	if err != nil || !block || e.Spec.Block() {
		return err
	}
	have, err := probe(path)
	if err != nil {
		return volumedir.Named(e.Spec.InnerName(), err)
	}
	var out []byte
	switch have {
	case "ext4":
		out, err = p.run(ctx, "resize2fs", path)
	case "xfs":
		out, err = p.run(ctx, "xfs_growfs", e.Dir)
	default:
		return volumedir.Named(e.Spec.InnerName(), volumemanager.Terminal(fmt.Errorf("device %s: do not know how to grow %s", path, have)))
	}
	if err != nil {
		return volumedir.Named(e.Spec.InnerName(), fmt.Errorf("grow device %s: %w: %s", path, err, lastLine(out)))
	}
	return nil
}

func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// runCommand runs a program of the system to its end.
func runCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, name, args...).CombinedOutput()
}
