// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager"
)

// attachPatience limits the wait of an Attachment call for the attach controller. The caller
// retries later.
const attachPatience = 5 * time.Second

// The first and the longest pause between two reads of an object for which the node has no watch
// permission.
const (
	firstLook   = 50 * time.Millisecond
	longestLook = time.Second
)

// AttachmentsOptions are the options of NewAttachments.
type AttachmentsOptions struct {
	// Client reads VolumeAttachment objects, for example FromStorage(StorageV1()) with client-go. Required.
	Client StorageClient
	// NodeName is the node's name. Required.
	NodeName types.NodeName
}

// Attachments reads the attach controller's result for CSI volumes attached to this node. It fits
// csi.Options.Attachments.
type Attachments struct {
	options AttachmentsOptions
	gets    flights[string, *storagev1.VolumeAttachment]
}

// NewAttachments returns an Attachments. The error names the invalid option.
func NewAttachments(o AttachmentsOptions) (*Attachments, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: AttachmentsOptions.Client is required", ErrOptions)
	case o.NodeName == "":
		return nil, fmt.Errorf("%w: AttachmentsOptions.NodeName is required", ErrOptions)
	}
	return &Attachments{options: o}, nil
}

// attachmentName returns the name of the VolumeAttachment object of a CSI volume on a node, in the
// format of the attach/detach controller (1.36).
func attachmentName(driver, handle string, node types.NodeName) string {
	sum := sha256.Sum256([]byte(handle + driver + string(node)))
	return "csi-" + hex.EncodeToString(sum[:])
}

// Attachment waits until the volume is attached, at most 5 s, and returns the driver's publish
// context. The caller owns the map. A node may get the object but not watch it, so Attachment reads
// the object repeatedly. Normally the first read is enough, because the node's status lists the
// volume as attached before. The error is the reason why the volume is not attached.
func (a *Attachments) Attachment(ctx context.Context, spec volumemanager.Spec) (map[string]string, error) {
	if spec.PV == nil || spec.PV.Spec.CSI == nil {
		return nil, errors.New("is no persistent CSI volume")
	}
	name := attachmentName(spec.PV.Spec.CSI.Driver, spec.PV.Spec.CSI.VolumeHandle, a.options.NodeName)
	patience := time.After(attachPatience)
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		metadata, err := a.look(ctx, name)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errNotYet) {
			return metadata, err
		}
		select {
		case <-time.After(pause):
		case <-patience:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errNotYet marks a state that ends without an action of a user.
var errNotYet = errors.New("is not attached yet")

// look reads the object once.
func (a *Attachments) look(ctx context.Context, name string) (map[string]string, error) {
	found, err := a.gets.do(ctx, name, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
		return request(ctx, verbGet, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
			return a.options.Client.VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
		})
	})
	switch {
	case err != nil && isMissing(err, name):
		return nil, fmt.Errorf("VolumeAttachment %s: there is none: %w", name, errNotYet)
	case err != nil:
		return nil, fmt.Errorf("VolumeAttachment %s: %w", name, err)
	case found.Spec.NodeName != string(a.options.NodeName):
		return nil, fmt.Errorf("VolumeAttachment %s is for node %q", name, found.Spec.NodeName)
	case found.Status.AttachError != nil:
		return nil, fmt.Errorf("VolumeAttachment %s: %s", name, clientkit.OneLine(found.Status.AttachError.Message))
	case found.DeletionTimestamp != nil:
		return nil, fmt.Errorf("VolumeAttachment %s is being deleted", name)
	case !found.Status.Attached:
		return nil, fmt.Errorf("VolumeAttachment %s: %w", name, errNotYet)
	}
	return maps.Clone(found.Status.AttachmentMetadata), nil
}

// resourceExhausted is the gRPC code of an attacher at the volume limit of the node.
const resourceExhausted = 8

// Exhausted reports whether the controller has failed to attach the volume because the node is at
// its volume limit. It fits csi.Limits.
func (a *Attachments) Exhausted(ctx context.Context, spec volumemanager.Spec) (bool, error) {
	if spec.PV == nil || spec.PV.Spec.CSI == nil {
		return false, nil
	}
	name := attachmentName(spec.PV.Spec.CSI.Driver, spec.PV.Spec.CSI.VolumeHandle, a.options.NodeName)
	found, err := request(ctx, verbGet, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
		return a.options.Client.VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	})
	switch {
	case err != nil && isMissing(err, name):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("VolumeAttachment %s: %w", name, err)
	}
	failed := found.Status.AttachError
	return failed != nil && failed.ErrorCode != nil && *failed.ErrorCode == resourceExhausted, nil
}
