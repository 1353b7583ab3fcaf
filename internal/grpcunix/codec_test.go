// SPDX-License-Identifier: Apache-2.0

package grpcunix

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listing is the answer of a runtime with 50 containers.
func listing() *api.ListContainersResponse {
	list := &api.ListContainersResponse{}
	for i := range 50 {
		c := &api.Container{Id: fmt.Sprintf("%064d", i), Annotations: map[string]string{}}
		for j := range 10 {
			c.Annotations[fmt.Sprintf("io.kubernetes.container.annotation-%d", j)] = fmt.Sprintf("%064d", j)
		}
		list.Containers = append(list.Containers, c)
	}
	return list
}

func TestAnswersAreRead(t *testing.T) {
	want := listing()
	data, err := protobuf.Marshal(want)
	require.NoError(t, err)
	c := newCodec()
	for name, in := range map[string]mem.BufferSlice{
		"one buffer": {mem.SliceBuffer(data)}, "two buffers": {mem.SliceBuffer(data[:1000]), mem.SliceBuffer(data[1000:])}, "none": nil,
	} {
		got := &api.ListContainersResponse{}
		require.NoError(t, c.Unmarshal(in, got), name)
		require.True(t, protobuf.Equal(got, want) == (len(in) > 0), name)
	}
	require.Error(t, c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:1000])}, &api.ListContainersResponse{}))
	require.ErrorContains(t, c.Unmarshal(nil, "text"), "want proto.Message")
	require.Empty(t, c.Name())

	copied := &api.ListContainersResponse{}
	require.NoError(t, c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, copied))
	clear(data)
	require.True(t, protobuf.Equal(copied, want), "the message does not share memory with the answer")
}

// An answer takes no more memory than its bytes and its message.
func TestAnAnswerTakesNoMegabyte(t *testing.T) {
	data, err := protobuf.Marshal(listing())
	require.NoError(t, err)
	require.Greater(t, len(data), 32<<10)
	c, frames := newCodec(), mem.BufferSlice{}
	for rest := data; len(rest) > 0; rest = rest[min(len(rest), 16<<10):] {
		frames = append(frames, mem.SliceBuffer(rest[:min(len(rest), 16<<10)]))
	}
	const times = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		require.NoError(t, c.Unmarshal(frames, &api.ListContainersResponse{}))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/times, uint64(10*len(data)))
}
