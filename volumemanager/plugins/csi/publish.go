// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/ownership"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
)

// targetName is the driver's mount point in a volume's folder, beside vol_data.json.
const targetName = "mount"

func isFinal(err error) bool {
	return errors.Is(err, volumemanager.ErrFinal) || errors.Is(err, volumemanager.ErrTerminal)
}

// SetUp makes the driver publish the volume, unless the volume is published and needs no
// republishing.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	out, err := p.publish(ctx, m, m.Dir(), filepath.Join(m.Dir(), targetName))
	return out, volumedir.Named(m.Spec.InnerName(), err)
}

// MapBlock makes the driver publish the device.
func (p *Plugin) MapBlock(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	out, err := p.publish(ctx, m, m.StateDir(), m.BlockPath())
	return out, volumedir.Named(m.Spec.InnerName(), err)
}

// publish writes the data for undoing the publishing, makes the driver publish at target, and
// applies the fsGroup.
func (p *Plugin) publish(ctx context.Context, m volumemanager.Mount, dataDir, target string) (volumemanager.Mounted, error) {
	if err := m.Check(); err != nil {
		return volumemanager.Mounted{}, volumemanager.Terminal(err)
	}
	v, err := of(m.Spec, m.Place, m.Pod.Namespace)
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	out := volumemanager.Mounted{Path: target, ReadOnly: v.readOnly, Managed: !v.readOnly && !v.block, SELinuxRelabel: !v.readOnly && !v.block}
	had, err := dataOf(m.Root, dataDir, m.Spec, m.Place)
	if err != nil {
		return out, err
	}
	if had != nil && had.Ready && !p.NeedsRefresh(m.Spec) {
		if there, err := p.isPublished(target); err != nil || there {
			return out, err
		}
	}
	if err := p.await(ctx); err != nil {
		return out, err
	}
	if err := p.allows(v); err != nil {
		return out, err
	}
	request, err := p.request(ctx, v, m)
	if err != nil {
		return out, err
	}
	n, ctx, err := p.connect(ctx, v.driver)
	if err != nil {
		return out, err
	}
	defer n.close()
	inUse := m.Remount || m.Reconstructed
	record := data{
		SpecVolID: m.Inner, VolumeHandle: v.handle, DriverName: v.driver, NodeName: p.options.NodeName,
		LifecycleMode: lifecycleOf(v), Ready: had != nil && had.Ready && inUse,
	}
	if had == nil || *had != record {
		if err := record.write(m.Root, dataDir); err != nil {
			return out, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(target), newDirMode); err != nil {
		return out, tree.Cause(err)
	}
	if err := p.callPublish(ctx, n, v, m, target, request); err != nil {
		if isFinal(err) && had == nil && !inUse {
			err = undoPublish(m.Root, dataDir, target, err)
		}
		return out, err
	}
	if record.Ready {
		return out, nil
	}
	if err := p.applyGroup(ctx, n, v, m, target); err != nil {
		return out, err
	}
	record.Ready = true
	return out, record.write(m.Root, dataDir)
}

// isPublished reports whether a mount or link is at target. After a reboot of the node the mount is
// gone although the data is there. A driver that does not mount creates a link.
func (p *Plugin) isPublished(target string) (bool, error) {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return true, nil
	}
	_, mounted, err := p.options.Mounter.At(target)
	return mounted, err
}

// allows returns an error if v is an inline volume and the driver does not support inline volumes.
func (p *Plugin) allows(v volume) error {
	d := p.driver(v.driver)
	if !v.inline || d == nil || slices.Contains(d.VolumeLifecycleModes, lifecycleEphemeral) {
		return nil
	}
	return volumemanager.Terminal(fmt.Errorf("driver %q has no inline volumes", v.driver))
}

func lifecycleOf(v volume) string {
	if v.inline {
		return lifecycleEphemeral
	}
	return lifecyclePersistent
}

// request returns the part of the request that does not need the driver's capabilities: secrets,
// attachment and pod.
func (p *Plugin) request(ctx context.Context, v volume, m volumemanager.Mount) (*csi.NodePublishVolumeRequest, error) {
	r := &csi.NodePublishVolumeRequest{VolumeId: v.handle, Readonly: v.readOnly}
	var err error
	if v.publishSecret != nil {
		if r.Secrets, err = p.secretsOf(ctx, v.publishSecret.Namespace, v.publishSecret.Name); err != nil {
			return nil, err
		}
	}
	if r.PublishContext, err = p.publishContext(ctx, m.Spec); err != nil {
		return nil, err
	}
	if r.VolumeContext, err = p.volumeContext(ctx, v, m); err != nil {
		return nil, err
	}
	text, ok := r.VolumeContext[keyTokens]
	if d := p.driver(v.driver); ok && d != nil && d.ServiceAccountTokenInSecrets != nil && *d.ServiceAccountTokenInSecrets {
		delete(r.VolumeContext, keyTokens) // the map belongs to this request
		if r.Secrets == nil {
			r.Secrets = map[string]string{}
		}
		r.Secrets[keyTokens] = text
	}
	return r, nil
}

func (p *Plugin) callPublish(ctx context.Context, n *node, v volume, m volumemanager.Mount, target string, r *csi.NodePublishVolumeRequest) error {
	group := ""
	if n.can.group && m.FSGroup != nil {
		group = strconv.FormatInt(*m.FSGroup, 10)
	}
	r.TargetPath, r.VolumeCapability = target, v.capability(n.can, group)
	if n.can.stage && !v.inline {
		r.StagingTargetPath = m.DeviceDir
	}
	_, err := n.NodePublishVolume(ctx, r)
	return judge("NodePublishVolume", err, hiddenIn(r))
}

// hiddenIn returns the values in a request that errors must not repeat: secrets and tokens, as JSON
// text and each token.
func hiddenIn(r *csi.NodePublishVolumeRequest) map[string]string {
	hidden := map[string]string{}
	maps.Copy(hidden, r.Secrets)
	for _, text := range []string{r.VolumeContext[keyTokens], r.Secrets[keyTokens]} {
		var tokens map[string]struct {
			Token string `json:"token"`
		}
		if json.Unmarshal([]byte(text), &tokens) != nil {
			continue // no tokens
		}
		hidden[keyTokens] = text
		for audience, t := range tokens {
			hidden[keyTokens+"/"+audience] = t.Token
		}
	}
	return hidden
}

// undoPublish removes the files of a failed publish. If the removal fails, the error is uncertain.
func undoPublish(root, dataDir, target string, err error) error {
	undo := removeTarget(target)
	if undo == nil && filepath.Dir(target) == dataDir {
		undo = removeDir(root, dataDir)
	} else if undo == nil {
		undo = removeData(dataDir)
	}
	if undo != nil {
		return volumemanager.Uncertain(fmt.Errorf("%w; and to clean up: %w", err, undo))
	}
	return err
}

// applyGroup applies the fsGroup to the volume's files, unless the driver does.
func (p *Plugin) applyGroup(ctx context.Context, n *node, v volume, m volumemanager.Mount, target string) error {
	if m.FSGroup == nil || v.block || n.can.group || !v.agentAppliesGroup(p.driver(v.driver)) {
		return nil
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return tree.Cause(err)
	}
	defer root.Close()
	return ownership.Apply(ctx, root, ".", ownership.Request{Group: *m.FSGroup, Policy: m.ChangePolicy})
}

// TearDown makes the driver unpublish the volume, and removes the folder.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	err := u.Check()
	if err == nil {
		err = p.unpublish(ctx, u, u.Dir(), filepath.Join(u.Dir(), targetName))
	}
	if err == nil {
		err = removeDir(u.Root, u.Dir(), targetName)
	}
	return volumedir.Named(u.Inner, err)
}

// UnmapBlock makes the driver unpublish the device.
func (p *Plugin) UnmapBlock(ctx context.Context, u volumemanager.Unmount) error {
	err := u.Check()
	if err == nil {
		err = p.unpublish(ctx, u, u.StateDir(), u.BlockPath())
	}
	if err == nil {
		err = errors.Join(removeTarget(u.BlockPath()), removeData(u.StateDir()))
	}
	return volumedir.Named(u.Inner, err)
}

// unpublish calls the driver if the driver may have published the volume.
func (p *Plugin) unpublish(ctx context.Context, u volumemanager.Unmount, dataDir, target string) error {
	had, err := dataOf(u.Root, dataDir, u.Spec, u.Place)
	if err != nil {
		return err
	}
	if had == nil {
		return nil // the data is written before any other step
	}
	n, ctx, err := p.connect(ctx, had.DriverName)
	if err != nil {
		return err
	}
	defer n.close()
	_, err = n.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: had.VolumeHandle, TargetPath: target})
	if err != nil {
		return judge("NodeUnpublishVolume", err, nil)
	}
	if _, mounted, err := p.options.Mounter.At(target); err != nil || mounted {
		return errors.Join(err, fmt.Errorf("driver %q left its mount at %s", had.DriverName, target))
	}
	return nil
}
