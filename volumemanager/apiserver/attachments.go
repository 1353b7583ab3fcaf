// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
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
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// DefaultAttachPatience is how long one Attachment waits for a controller; whoever wants it asks again.
const DefaultAttachPatience = 5 * time.Second

// The first and the longest pause between two looks at an object that may be only read, not watched.
const (
	firstLook   = 50 * time.Millisecond
	longestLook = time.Second
)

// AttachmentsOptions are the options of NewAttachments.
type AttachmentsOptions struct {
	// Client reads VolumeAttachment objects; client-go's StorageV1() is one. Required.
	Client storageclient.VolumeAttachmentsGetter
	// NodeName is the node's name. Required.
	NodeName types.NodeName
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Patience is how long one Attachment waits. Defaults to DefaultAttachPatience.
	Patience time.Duration
}

// Attachments reads what the controller of a CSI driver says of a volume that it has attached to this node. It fits
// csi.Options.Attachments.
type Attachments struct {
	options AttachmentsOptions
	gets    flights[string, *storagev1.VolumeAttachment]
}

// NewAttachments returns an Attachments. An error names the option that is wrong.
func NewAttachments(o AttachmentsOptions) (*Attachments, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: AttachmentsOptions.Client is required", ErrOptions)
	case o.NodeName == "":
		return nil, fmt.Errorf("%w: AttachmentsOptions.NodeName is required", ErrOptions)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: AttachmentsOptions.Timeout is negative: %v", ErrOptions, o.Timeout)
	case o.Patience < 0:
		return nil, fmt.Errorf("%w: AttachmentsOptions.Patience is negative: %v", ErrOptions, o.Patience)
	}
	o.Timeout, o.Patience = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Patience, DefaultAttachPatience)
	return &Attachments{options: o}, nil
}

// AttachmentName is the name of the VolumeAttachment object of a CSI volume on a node, by the rule of the attach/detach
// controller (1.36).
func AttachmentName(driver, handle string, node types.NodeName) string {
	sum := sha256.Sum256([]byte(handle + driver + string(node)))
	return "csi-" + hex.EncodeToString(sum[:])
}

// Attachment waits for a while until the volume is attached, and returns the driver's publish context, which is the
// caller's. A node may get the object, not watch it, so it is looked at again and again; normally the first look is
// enough, because the node's status says first that the volume is attached. The error is the reason why it is not.
func (a *Attachments) Attachment(ctx context.Context, spec volumemanager.Spec) (map[string]string, error) {
	if spec.PV == nil || spec.PV.Spec.CSI == nil {
		return nil, errors.New("is no persistent CSI volume")
	}
	name := AttachmentName(spec.PV.Spec.CSI.Driver, spec.PV.Spec.CSI.VolumeHandle, a.options.NodeName)
	patience := time.NewTimer(a.options.Patience)
	defer patience.Stop()
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		metadata, err := a.look(ctx, name)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errNotYet) {
			return metadata, err
		}
		select {
		case <-time.After(pause):
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errNotYet marks what time may heal without anybody's doing.
var errNotYet = errors.New("is not attached yet")

// look gets the object once.
func (a *Attachments) look(ctx context.Context, name string) (map[string]string, error) {
	found, err := a.gets.do(ctx, name, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
		return request(ctx, a.options.Timeout, VerbGet, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
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
		return nil, fmt.Errorf("VolumeAttachment %s: %s", name, oneLine(found.Status.AttachError.Message))
	case found.DeletionTimestamp != nil:
		return nil, fmt.Errorf("VolumeAttachment %s is being deleted", name)
	case !found.Status.Attached:
		return nil, fmt.Errorf("VolumeAttachment %s: %w", name, errNotYet)
	}
	return maps.Clone(found.Status.AttachmentMetadata), nil
}

// resourceExhausted is the gRPC code of an attacher that has no room for more on the node.
const resourceExhausted = 8

// Exhausted reports whether the controller has failed to attach the volume because the node has as many as it takes. It
// fits csi.Limits.
func (a *Attachments) Exhausted(ctx context.Context, spec volumemanager.Spec) (bool, error) {
	if spec.PV == nil || spec.PV.Spec.CSI == nil {
		return false, nil
	}
	name := AttachmentName(spec.PV.Spec.CSI.Driver, spec.PV.Spec.CSI.VolumeHandle, a.options.NodeName)
	found, err := request(ctx, a.options.Timeout, VerbGet, func(ctx context.Context) (*storagev1.VolumeAttachment, error) {
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
