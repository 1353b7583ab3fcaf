// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/ownership"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Name is the name of the plugin.
const Name = "kubernetes.io/empty-dir"

const (
	// startMode is the mode of a folder until its set-up is complete; the last step of the set-up
	// sets the final mode. Containers do not normally set such a restrictive mode.
	startMode = 0o400
	// openMode gives every user in every container write access.
	openMode = 0o777

	tmpfs     = "tmpfs"
	hugetlbfs = "hugetlbfs"
)

// Options are the options of New. The zero value is valid.
type Options struct {
	// Mounter mounts memory. Defaults to mount.Detect().
	Mounter mount.Mounter
	// AllocatableMemory returns the node's memory for pods, the maximum size of any tmpfs. Defaults
	// to the file system's own limit, half of the memory.
	AllocatableMemory func() resource.Quantity
}

// Plugin implements volumemanager.Plugin. See New.
type Plugin struct {
	options   Options
	hugePages string // the kernel's folder about huge pages
}

// New returns a plugin. The error is always nil.
func New(o Options) (*Plugin, error) {
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	if o.AllocatableMemory == nil {
		o.AllocatableMemory = func() resource.Quantity { return resource.Quantity{} }
	}
	return &Plugin{o, "/sys/kernel/mm/hugepages"}, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Supports reports whether s is an emptyDir volume.
func (*Plugin) Supports(s volumemanager.Spec) bool {
	return s.Volume != nil && s.Volume.EmptyDir != nil
}

// SetUp creates and mounts the folder. A complete folder is left unchanged.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	mounted := volumemanager.Mounted{Path: m.Dir(), Managed: true, SELinuxRelabel: true}
	return mounted, volumedir.Named(m.Spec.InnerName(), p.setUp(ctx, m))
}

func (p *Plugin) setUp(ctx context.Context, m volumemanager.Mount) error {
	want := m.Spec.Volume.EmptyDir
	request, err := p.request(m, want)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return volumemanager.Transient(context.Cause(ctx))
	}
	dir, made, err := volumedir.MakeFile(m.Place, startMode)
	if err != nil {
		return tree.Cause(err)
	}
	defer func() { dir.Close() }()
	if !made || request != nil {
		fresh, err := p.mount(ctx, m.Place, request)
		if err != nil {
			return err
		}
		if fresh {
			dir.Close()
			if dir, err = volumedir.OpenFile(m.Place); err != nil {
				return tree.Cause(err)
			}
		}
	}
	info, err := dir.Stat()
	if err != nil {
		return tree.Cause(err)
	}
	if !unfinished(info.Mode()) {
		return nil
	}
	return finish(dir, m, want)
}

// unfinished reports whether a folder with mode m was not completely set up. The umask may have
// cleared bits of startMode, and the parent may have set the setgid bit.
func unfinished(m fs.FileMode) bool {
	return m&(fs.ModePerm|fs.ModeSetuid|fs.ModeSticky)&^startMode == 0
}

// mount mounts the request r at the volume's folder, unless r is mounted already. fresh reports a
// new mount.
func (p *Plugin) mount(ctx context.Context, at volumemanager.Place, r *mount.Request) (fresh bool, err error) {
	info, mounted, err := p.options.Mounter.At(at.Dir())
	switch {
	case err != nil:
		return false, err
	case r == nil && !mounted:
		return false, nil
	case r == nil, mounted && info.Type != r.Type:
		return false, fmt.Errorf("%s at its folder: %w", info.Type, volumedir.ErrForeignMount)
	case mounted:
		return false, samePages(info, r)
	}
	if r.Type == tmpfs {
		// noswap keeps memory out of the swap; supported since Linux 6.4.
		unswapped := *r
		unswapped.Options = append([]string{"noswap"}, r.Options...)
		if p.options.Mounter.Mount(ctx, unswapped) == nil {
			return true, nil
		}
	}
	return true, p.options.Mounter.Mount(ctx, *r)
}

// finish sets the group of a new, empty volume, then its mode. The mode marks the volume as
// complete.
func finish(dir *os.File, m volumemanager.Mount, want *v1.EmptyDirVolumeSource) error {
	mode := modeOf(want)
	if m.FSGroup != nil {
		more, err := ownership.Take(dir, ownership.Request{Group: *m.FSGroup})
		if err != nil {
			return err
		}
		mode |= more
	}
	return tree.Cause(dir.Chmod(mode))
}

// modeOf returns the mode of the folder. The default is openMode. For a tmpfs the default includes
// the sticky bit, with which the kernel mounts a tmpfs, as in the kubelet (1.36).
// EmptyDirVolumeSource.Mode is alpha in Kubernetes 1.37.
func modeOf(want *v1.EmptyDirVolumeSource) fs.FileMode {
	switch {
	case want.Mode != nil:
	case want.Medium == v1.StorageMediumMemory:
		return openMode | fs.ModeSticky
	default:
		return openMode
	}
	mode := fs.FileMode(*want.Mode) & fs.ModePerm
	if *want.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// TearDown removes the folder with its content.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	return volumedir.Named(u.Inner, p.tearDown(ctx, u))
}

func (p *Plugin) tearDown(ctx context.Context, u volumemanager.Unmount) error {
	ours := []string{tmpfs, hugetlbfs}
	if v := u.Spec.Volume; v != nil && v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault {
		ours = nil
	}
	if err := volumedir.Unmount(ctx, u.Place, p.options.Mounter, ours...); err != nil {
		return err
	}
	return volumedir.Remove(u.Place)
}

// isHugePages reports whether the medium is "HugePages" or "HugePages-<size>".
func isHugePages(m v1.StorageMedium) bool {
	return m == v1.StorageMediumHugePages || strings.HasPrefix(string(m), string(v1.StorageMediumHugePagesPrefix))
}
