// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keelson-dev/keelson/runtime"
)

// began is the time of the pull in the tests, in seconds of Unix.
const began = 1000

func ingest(ref string, offset, total int64) []byte { return ingestAt(began, ref, offset, total) }

func ingestAt(updated uint64, ref string, offset, total int64) []byte {
	seconds := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), updated)
	status := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), seconds)
	status = protowire.AppendString(protowire.AppendTag(status, 3, protowire.BytesType), ref)
	status = protowire.AppendVarint(protowire.AppendTag(status, 4, protowire.VarintType), uint64(offset))
	status = protowire.AppendVarint(protowire.AppendTag(status, 5, protowire.VarintType), uint64(total))
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), status)
}

// The layers of an answer are added. Manifests, and numbers that make no sense, are left out.
func TestLayersUnderWay(t *testing.T) {
	var answer []byte
	for _, one := range [][]byte{
		ingest("layer-sha256:a", 10, 100), ingest("layer-sha256:b", 0, 50), ingest("manifest-sha256:c", 7, 7),
		ingest("layer-sha256:d", -1, 100), ingest("layer-sha256:e", 9, 5), ingest("layer-sha256:f", 3, 0), {0x15, 1, 2, 3, 4},
		ingestAt(began-1, "layer-sha256:left-over", 10, 100),
	} {
		answer = append(answer, one...)
	}
	want := runtime.PullProgress{Bytes: 10, Total: 150, Current: true}
	assert.Equal(t, want, layersUnderWay(answer, began))
	assert.Equal(t, want, layersUnderWay(append(answer, 0x0a, 0xff), began), "a damaged end")
	assert.Zero(t, layersUnderWay(nil, began))
}

func FuzzLayersUnderWay(f *testing.F) {
	f.Add(ingest("layer-sha256:a", 10, 100))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if p := layersUnderWay(answer, began); p.Current != (p.Total != 0) {
			t.Errorf("%+v", p)
		}
	})
}
