// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
)

const newDirMode = 0o750

// MountDevice makes the driver stage the volume, if the driver supports staging.
func (p *Plugin) MountDevice(ctx context.Context, d volumemanager.Device) error {
	return volumedir.Named(d.Spec.InnerName(), p.mountDevice(ctx, d))
}

func (p *Plugin) mountDevice(ctx context.Context, d volumemanager.Device) error {
	v, err := of(d.Spec, volumemanager.Place{}, "")
	if err != nil {
		return err
	}
	var secrets map[string]string
	if v.stageSecret != nil {
		if secrets, err = p.secretsOf(ctx, v.stageSecret.Namespace, v.stageSecret.Name); err != nil {
			return err
		}
	}
	published, err := p.publishContext(ctx, d.Spec)
	if err != nil {
		return err
	}
	n, ctx, err := p.connect(ctx, v.driver)
	if err != nil {
		return err
	}
	defer n.close()
	if !n.can.stage {
		return nil
	}
	had, err := dataOf(d.Root, filepath.Dir(d.Dir), d.Spec, volumemanager.Place{})
	if err != nil {
		return err
	}
	record := data{VolumeHandle: v.handle, DriverName: v.driver, NodeName: p.options.NodeName}
	if err := record.write(d.Root, filepath.Dir(d.Dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, newDirMode); err != nil {
		return tree.Cause(err)
	}
	_, err = n.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.handle, PublishContext: published, StagingTargetPath: d.Dir,
		VolumeCapability: v.capability(n.can, ""), Secrets: secrets, VolumeContext: v.attributes,
	})
	err = judge("NodeStageVolume", err, secrets)
	if isFinal(err) && had == nil {
		// No operation is under way. If the cleanup fails, the volume is uncertain.
		if undo := removeDir(d.Root, filepath.Dir(d.Dir), filepath.Base(d.Dir)); undo != nil {
			return volumemanager.Uncertain(fmt.Errorf("%w; and to clean up: %w", err, undo))
		}
	}
	return err
}

// UnmountDevice makes the driver unstage the volume. It refuses while a pod still has the staged
// volume mounted.
func (p *Plugin) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	return volumedir.Named(d.Spec.InnerName(), p.unmountDevice(ctx, d))
}

func (p *Plugin) unmountDevice(ctx context.Context, d volumemanager.Device) error {
	dir := filepath.Dir(d.Dir)
	if rel, err := filepath.Rel(filepath.Join(d.Root, pluginDir), d.Dir); err != nil || !filepath.IsLocal(rel) || strings.Count(rel, "/") != 2 {
		return volumemanager.Terminal(fmt.Errorf("%s is not below %s", d.Dir, pluginDir))
	}
	had, err := dataOf(d.Root, dir, d.Spec, volumemanager.Place{})
	if err != nil {
		return err
	}
	if had == nil { // nothing was staged, because the data is written first; only a folder may be left
		return removeDir(d.Root, dir, filepath.Base(d.Dir))
	}
	if err := p.unreferenced(d.Root, d.Dir); err != nil {
		return err
	}
	n, ctx, err := p.connect(ctx, had.DriverName)
	if err != nil {
		return err
	}
	defer n.close()
	if n.can.stage {
		_, err := n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: had.VolumeHandle, StagingTargetPath: d.Dir})
		if err != nil {
			return judge("NodeUnstageVolume", err, nil)
		}
	}
	return removeDir(d.Root, dir, filepath.Base(d.Dir))
}

// unreferenced returns an error if a pod still has a mount of the file system mounted at dir.
func (p *Plugin) unreferenced(root, dir string) error {
	at, mounted, err := p.options.Mounter.At(dir)
	if err != nil || !mounted {
		return err
	}
	mounts, err := p.options.Mounter.List()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		same := m.Major == at.Major && m.Minor == at.Minor && isAtOrBelow(m.Root, at.Root)
		if same && isAtOrBelow(m.Target, filepath.Join(root, "pods")) {
			return fmt.Errorf("%s is still mounted at %s", dir, m.Target)
		}
	}
	return nil
}

func isAtOrBelow(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, "/")+"/")
}

// publishContext returns the publish context from the attachment of the volume.
func (p *Plugin) publishContext(ctx context.Context, s volumemanager.Spec) (map[string]string, error) {
	if p.options.Attachments == nil || s.PV == nil {
		return nil, nil
	}
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	if !p.Attachable(s) {
		return nil, nil
	}
	out, err := p.options.Attachments.Attachment(ctx, s)
	if err != nil {
		return nil, volumemanager.Transient(fmt.Errorf("attachment: %w", err))
	}
	return out, nil
}

// Attachable reports whether s is a persistent volume that needs attaching: Options.Attachments is
// set, and the driver's CSIDriver object does not say otherwise.
func (p *Plugin) Attachable(s volumemanager.Spec) bool {
	if p.options.Attachments == nil || s.PV == nil {
		return false
	}
	d := p.driver(driverOf(s))
	return d == nil || d.AttachRequired == nil || *d.AttachRequired
}

// WaitForAttach waits for the attachment. CSI volumes have no device path.
func (p *Plugin) WaitForAttach(ctx context.Context, s volumemanager.Spec, _ string) (string, error) {
	_, err := p.publishContext(ctx, s)
	return "", err
}

// Exhausted implements volumemanager.AttachLimiter if Attachments implement Limits. As in the
// kubelet (1.36), Exhausted is false for drivers without NodeAllocatableUpdatePeriodSeconds,
// because the scheduler would place the next pod on this node again.
func (p *Plugin) Exhausted(ctx context.Context, s volumemanager.Spec) (bool, error) {
	limits, ok := p.options.Attachments.(Limits)
	if d := p.driver(driverOf(s)); !ok || d == nil || d.NodeAllocatableUpdatePeriodSeconds == nil || *d.NodeAllocatableUpdatePeriodSeconds == 0 {
		return false, nil
	}
	return limits.Exhausted(ctx, s)
}

var _ volumemanager.AttachLimiter = (*Plugin)(nil)

// Expand makes the driver grow the volume on this node. For a driver without EXPAND_VOLUME, Expand
// does nothing.
func (p *Plugin) Expand(ctx context.Context, e volumemanager.Expansion) error {
	v, err := of(e.Spec, volumemanager.Place{}, "")
	if err != nil {
		return err
	}
	n, ctx, err := p.connect(ctx, v.driver)
	if err != nil {
		return volumedir.Named(e.Spec.InnerName(), err)
	}
	defer n.close()
	if !n.can.expand {
		return nil
	}
	r := &csi.NodeExpandVolumeRequest{
		VolumeId: v.handle, VolumePath: cmp.Or(e.MountedPath, e.Dir), VolumeCapability: v.capability(n.can, ""),
		CapacityRange: &csi.CapacityRange{RequiredBytes: e.To.Value()},
	}
	if n.can.stage {
		r.StagingTargetPath = e.Dir
	}
	_, err = n.NodeExpandVolume(ctx, r)
	if err == nil {
		return nil
	}
	judged := judge("NodeExpandVolume", err, nil)
	if status.Code(err) == codes.FailedPrecondition {
		judged = volumemanager.Terminal(judged)
	}
	return volumedir.Named(e.Spec.InnerName(), judged)
}
