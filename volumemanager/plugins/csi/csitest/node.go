// SPDX-License-Identifier: Apache-2.0

package csitest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

const (
	folderMode = 0o755
	fileMode   = 0o640
	// inlinePrefix is the prefix of the handles of inline volumes.
	inlinePrefix = "csi-"
)

// GetPluginInfo answers with the driver's name.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DefaultName, VendorVersion: "1"}, nil
}

// GetPluginCapabilities answers without capabilities.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe answers that the driver is ready.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetCapabilities answers with Options.Capabilities.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range d.options.Capabilities {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

// NodeGetInfo answers with Options.NodeID, MaxVolumes and Topology.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.options.NodeID, MaxVolumesPerNode: d.options.MaxVolumes,
		AccessibleTopology: &csi.Topology{Segments: d.options.Topology}}, nil
}

func (d *Driver) can(c csi.NodeServiceCapability_RPC_Type) bool {
	return slices.Contains(d.options.Capabilities, c)
}

func (d *Driver) stages() bool { return d.can(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME) }

// check returns the errors required by the specification.
func (d *Driver) check(handle, path string, c *csi.VolumeCapability) error {
	switch {
	case handle == "" || path == "" || c == nil || c.GetAccessMode() == nil || c.GetMount() == nil && c.GetBlock() == nil:
		return status.Error(codes.InvalidArgument, "volume id, path, or capability is missing")
	case !filepath.IsLocal(handle) || strings.Contains(handle, "/"):
		return status.Error(codes.InvalidArgument, "volume id is no path element")
	case c.GetMount().GetVolumeMountGroup() != "" && !d.can(csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP):
		return status.Error(codes.InvalidArgument, "cannot apply a group")
	}
	return nil
}

// NodeStageVolume binds the volume's folder to the staging path, which must exist.
func (d *Driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := d.check(r.GetVolumeId(), r.GetStagingTargetPath(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if !d.stages() {
		return nil, status.Error(codes.Unimplemented, "volumes are not staged")
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	if err := os.MkdirAll(d.Volume(r.GetVolumeId()), folderMode); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if info, err := os.Stat(r.GetStagingTargetPath()); err != nil || !info.IsDir() {
		return nil, status.Error(codes.FailedPrecondition, "the staging path is no folder")
	}
	err := d.bind(ctx, d.Volume(r.GetVolumeId()), r.GetStagingTargetPath(), nil)
	if errors.Is(err, mount.ErrUnsupported) {
		err = nil // NodePublishVolume then uses the volume itself
	}
	return &csi.NodeStageVolumeResponse{}, answer(err)
}

// NodeUnstageVolume unmounts the staging path.
func (d *Driver) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume id or path is missing")
	}
	return &csi.NodeUnstageVolumeResponse{}, answer(d.options.Mounter.Unmount(ctx, r.GetStagingTargetPath()))
}

// NodePublishVolume creates the target and binds the volume to the target, from the staging path if
// the volume is staged.
func (d *Driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := d.check(r.GetVolumeId(), r.GetTargetPath(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	inline := strings.HasPrefix(r.GetVolumeId(), inlinePrefix)
	if d.stages() && !inline && r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.FailedPrecondition, "the volume was not staged")
	}
	source := d.Volume(r.GetVolumeId())
	block := r.GetVolumeCapability().GetBlock() != nil
	if !block {
		if err := os.MkdirAll(source, folderMode); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		if _, mounted, err := d.options.Mounter.At(r.GetStagingTargetPath()); err == nil && mounted {
			source = r.GetStagingTargetPath()
		}
	}
	return &csi.NodePublishVolumeResponse{}, answer(d.publish(ctx, source, r, block))
}

// publish creates the target, as the specification requires, and binds source to it.
func (d *Driver) publish(ctx context.Context, source string, r *csi.NodePublishVolumeRequest, block bool) error {
	target := r.GetTargetPath()
	if _, err := os.Readlink(target); err == nil {
		return nil
	}
	if _, none := d.options.Mounter.(mount.None); none {
		return os.Symlink(source, target)
	}
	var err error
	if block {
		var f *os.File
		if f, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, fileMode); err == nil {
			err = f.Close()
		}
	} else if err = os.Mkdir(target, folderMode); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	options := slices.Clone(r.GetVolumeCapability().GetMount().GetMountFlags())
	if r.GetReadonly() {
		options = append(options, "ro")
	}
	return d.bind(ctx, source, target, options)
}

// bind mounts source at target, unless target is mounted already.
func (d *Driver) bind(ctx context.Context, source, target string, options []string) error {
	if _, mounted, err := d.options.Mounter.At(target); err != nil || mounted {
		return err
	}
	return d.options.Mounter.Mount(ctx, mount.Request{Source: source, Target: target, Options: append([]string{"bind"}, options...)})
}

// NodeUnpublishVolume unmounts the target and removes it, and the folder of an inline volume.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	handle := r.GetVolumeId()
	if handle == "" || r.GetTargetPath() == "" || !filepath.IsLocal(handle) || strings.Contains(handle, "/") {
		return nil, status.Error(codes.InvalidArgument, "volume id or path is missing")
	}
	if err := d.options.Mounter.Unmount(ctx, r.GetTargetPath()); err != nil {
		return nil, answer(err)
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, answer(err)
	}
	if strings.HasPrefix(handle, inlinePrefix) {
		if err := os.RemoveAll(d.Volume(handle)); err != nil {
			return nil, answer(err)
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume succeeds without an effect, because folders have no size.
func (d *Driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if !d.can(csi.NodeServiceCapability_RPC_EXPAND_VOLUME) {
		return nil, status.Error(codes.Unimplemented, "volumes do not grow")
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

func answer(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
