// SPDX-License-Identifier: Apache-2.0

package grpcunix

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec is the codec of grpc for protocol buffers, with other buffers for answers. Above 32 KiB, the pool of grpc has
// buffers of 1 MiB only, and each garbage collection empties the pool. A list of 50 containers has 60 KiB: each list
// took 1 MiB of new memory, which made an idle agent collect garbage.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Name keeps the content type application/grpc: a name would be added to the type.
func (codec) Name() string { return "" }

// Unmarshal implements encoding.CodecV2. Messages keep no reference to data.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(protobuf.Message)
	switch {
	case !ok:
		return c.CodecV2.Unmarshal(data, v)
	case len(data) == 1:
		return protobuf.Unmarshal(data[0].ReadOnlyData(), m)
	}
	return protobuf.Unmarshal(data.Materialize(), m)
}
