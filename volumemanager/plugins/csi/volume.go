// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// pluginDir is the folder of staged volumes, below the root.
const pluginDir = "plugins/kubernetes.io/csi"

// volume has the properties of a CSI volume.
type volume struct {
	driver, handle string
	inline         bool
	block          bool
	readOnly       bool
	fsType         string
	attributes     map[string]string
	modes          []v1.PersistentVolumeAccessMode
	flags          []string
	// stageSecret and publishSecret are nil if the volume names no such secret.
	stageSecret, publishSecret *v1.SecretReference
}

// persistent returns the volume behind a PV.
func persistent(pv *v1.PersistentVolume, readOnly bool) (volume, error) {
	c := pv.Spec.CSI
	v := volume{
		driver: c.Driver, handle: c.VolumeHandle, readOnly: readOnly || c.ReadOnly, fsType: c.FSType,
		attributes: c.VolumeAttributes, modes: pv.Spec.AccessModes, flags: pv.Spec.MountOptions,
		block:       pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock,
		stageSecret: c.NodeStageSecretRef, publishSecret: c.NodePublishSecretRef,
	}
	return v, v.check()
}

// of returns the volume of a spec. at and namespace are the pod's, for inline volumes.
func of(s volumemanager.Spec, at volumemanager.Place, namespace string) (volume, error) {
	switch {
	case s.PV != nil && s.PV.Spec.CSI != nil:
		return persistent(s.PV, s.ReadOnly)
	case s.PV == nil && s.Volume != nil && s.Volume.CSI != nil:
		c := s.Volume.CSI
		v := volume{
			driver: c.Driver, handle: inlineHandle(at), inline: true, attributes: c.VolumeAttributes,
			readOnly: c.ReadOnly != nil && *c.ReadOnly,
			modes:    []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		}
		if c.FSType != nil {
			v.fsType = *c.FSType
		}
		if c.NodePublishSecretRef != nil {
			v.publishSecret = &v1.SecretReference{Namespace: namespace, Name: c.NodePublishSecretRef.Name}
		}
		return v, v.check()
	}
	return volume{}, volumemanager.Terminal(errors.New("is no CSI volume"))
}

// inlineHandle returns the volume handle of an inline volume, the same as the kubelet's.
func inlineHandle(at volumemanager.Place) string {
	sum := sha256.Sum256([]byte(string(at.PodUID) + at.Inner))
	return "csi-" + hex.EncodeToString(sum[:])
}

func (v volume) check() error {
	if !isElement(v.driver) || v.handle == "" {
		return volumemanager.Terminal(fmt.Errorf("CSI driver %q, volume handle %q: the driver's name is invalid, or the handle is empty", v.driver, v.handle))
	}
	return nil
}

func isElement(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "." && !strings.ContainsRune(name, 0)
}

func driverOf(s volumemanager.Spec) string {
	switch {
	case s.PV != nil && s.PV.Spec.CSI != nil:
		return s.PV.Spec.CSI.Driver
	case s.PV == nil && s.Volume != nil && s.Volume.CSI != nil:
		return s.Volume.CSI.Driver
	}
	return ""
}

// stageDir returns the folder of a driver's volume; the folder contains globalmount and
// vol_data.json.
func (v volume) stageDir() string {
	sum := sha256.Sum256([]byte(v.handle))
	return filepath.Join(pluginDir, v.driver, hex.EncodeToString(sum[:]))
}

// capability returns the capability requested from the driver. group is the fsGroup for the driver
// to apply, or "".
func (v volume) capability(can abilities, group string) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: v.accessMode(can)}}
	if v.block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: v.fsType, MountFlags: v.flags, VolumeMountGroup: group,
	}}
	return c
}

// accessMode translates the widest of the volume's access modes.
func (v volume) accessMode(can abilities) csi.VolumeCapability_AccessMode_Mode {
	has := func(m v1.PersistentVolumeAccessMode) bool { return slices.Contains(v.modes, m) }
	switch {
	case has(v1.ReadWriteMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case has(v1.ReadOnlyMany) && has(v1.ReadWriteOnce):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	case has(v1.ReadOnlyMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case has(v1.ReadWriteOncePod) && can.modes:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case can.modes && !v.inline:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// agentAppliesGroup reports whether the agent applies the fsGroup to the volume's files, by the
// driver's policy.
func (v volume) agentAppliesGroup(d *storagev1.CSIDriverSpec) bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if d != nil && d.FSGroupPolicy != nil {
		policy = *d.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return !v.readOnly
	}
	once := slices.Contains(v.modes, v1.ReadWriteOnce) || slices.Contains(v.modes, v1.ReadWriteOncePod)
	return v.fsType != "" && once && !v.readOnly
}

// VolumeID returns <driver>^<handle>; "" for inline volumes, which are private to the pod.
func (*Plugin) VolumeID(s volumemanager.Spec) (string, error) {
	if s.PV == nil {
		return "", nil
	}
	v, err := of(s, volumemanager.Place{}, "")
	if err != nil {
		return "", err
	}
	return v.driver + "^" + v.handle, nil
}

// DeviceDir returns the staging folder of a persistent volume. Only the driver knows whether it
// stages volumes, so the folder may stay unused.
func (*Plugin) DeviceDir(root string, s volumemanager.Spec) (string, error) {
	if s.PV == nil {
		return "", nil
	}
	v, err := of(s, volumemanager.Place{}, "")
	if err != nil {
		return "", err
	}
	return filepath.Join(root, v.stageDir(), "globalmount"), nil
}
