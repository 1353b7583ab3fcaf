// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keelson-dev/keelson/runtime"
)

// contentService lists the downloads of containerd.
const contentService = "containerd.services.content.v1.Content"

// maxLayer is more than the bytes of any layer.
const maxLayer = 1 << 40

// layerRef begins the names of downloads that are layers.
const layerRef = "layer-"

// PullProgress implements runtime.PullMeter. The CRI has no call for the progress of a pull.
// containerd's own API lists the layers being fetched, without their image. They show the progress
// of a pull only if this client has no other pull. CRI-O reports nothing.
func (r *client) PullProgress(ctx context.Context, _ string) runtime.PullProgress {
	if r.info.Name != "containerd" || r.pulls.Load() != 1 {
		return runtime.PullProgress{}
	}
	answer, err := r.askContainerd(ctx, contentService, "ListStatuses", nil)
	if err != nil {
		return runtime.PullProgress{}
	}
	return layersUnderWay(answer, r.pullBegan.Load())
}

// layersUnderWay adds up the layers in an answer of ListStatuses that received bytes after since,
// in Unix seconds. The other layers are left over from failed pulls.
func layersUnderWay(answer []byte, since int64) (sum runtime.PullProgress) {
	const fieldStatuses = 1
	eachField(answer, func(field protowire.Number, _ uint64, status []byte) {
		const fieldUpdated, fieldRef, fieldOffset, fieldTotal = 2, 3, 4, 5
		var ref string
		var updated, offset, total int64
		if field != fieldStatuses {
			return
		}
		eachField(status, func(field protowire.Number, number uint64, text []byte) {
			switch field {
			case fieldUpdated:
				eachField(text, func(field protowire.Number, number uint64, _ []byte) {
					if field == 1 {
						updated = int64(number)
					}
				})
			case fieldRef:
				ref = string(text)
			case fieldOffset:
				offset = int64(number)
			case fieldTotal:
				total = int64(number)
			}
		})
		if strings.HasPrefix(ref, layerRef) && updated >= since && offset >= 0 && total > 0 && offset <= total && total < maxLayer {
			sum.Bytes, sum.Total, sum.Current = sum.Bytes+offset, sum.Total+total, true
		}
	})
	return sum
}

// eachField visits the numbers and the texts of a message, up to the first damaged field.
func eachField(message []byte, visit func(field protowire.Number, number uint64, text []byte)) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		var number uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return
		}
		visit(field, number, text)
		message = message[n:]
	}
}

// ImageSize implements runtime.PullMeter. The image stays in the cache of images, which the creation of
// a container reads.
func (r *client) ImageSize(ctx context.Context, id string) (int64, error) {
	image, err := r.imageStatus(ctx, id)
	if err == nil && image == nil {
		err = fmt.Errorf("image %s: %w", id, runtime.ErrNotFound)
	}
	return int64(image.GetSize()), err
}
