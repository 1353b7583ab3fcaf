// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// fill fills a message at random. A field is absent now and then.
func fill(r *rand.Rand, m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if r.IntN(5) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			for _, key := range []string{containermeta.LabelPodUID, containermeta.LabelPodName, containermeta.LabelPodNamespace, containermeta.LabelContainerName, "other"} {
				if r.IntN(5) > 0 {
					m.Mutable(f).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(fmt.Sprint("v", r.IntN(4))))
				}
			}
		case f.IsList():
			for range r.IntN(4) {
				fill(r, m.Mutable(f).List().AppendMutable().Message())
			}
		case f.Kind() == protoreflect.MessageKind:
			fill(r, m.Mutable(f).Message())
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(fmt.Sprint("s", r.IntN(100))))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(r.Int64()-1<<61))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(r.Uint64()))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(r.Uint32()))
		}
	}
}

// decodePodStats decodes an answer that arrives in pieces of a size.
func decodePodStats(runtimeName string, data []byte, size int) (pods []sandboxUsage, containers []containerUsage, err error) {
	var pieces mem.BufferSlice
	for piece := range slices.Chunk(data, size) {
		pieces = append(pieces, mem.SliceBuffer(piece))
	}
	a := podStatsAnswer{runtime: runtimeName}
	a.decode(pieces)
	return a.pods, a.containers, a.err
}

// Answers are decoded as by the generated code, whose getters are the reference.
func TestDecodedAsByTheGeneratedCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var answer api.ListPodSandboxStatsResponse
		fill(r, answer.ProtoReflect())
		data, err := proto.Marshal(&answer)
		require.NoError(t, err)
		pods, containers, err := decodePodStats("r", data, 1+r.IntN(200))
		require.NoError(t, err)
		require.Len(t, pods, len(answer.GetStats()))
		for i, p := range answer.GetStats() {
			labels := p.GetAttributes().GetLabels()
			got := pods[i]
			require.Equal(t, p.GetAttributes().GetId(), got.id)
			require.Equal(t, labels[containermeta.LabelPodUID]+labels[containermeta.LabelPodNamespace]+labels[containermeta.LabelPodName], got.uid+got.namespace+got.pod)
			require.Equal(t, cpuStatsOf(p.GetLinux().GetCpu()), got.CPU)
			require.Equal(t, memoryStatsOf(p.GetLinux().GetMemory()), got.Memory)
			require.Equal(t, p.GetLinux().GetProcess().GetProcessCount().GetValue(), got.Processes)
			n := p.GetLinux().GetNetwork().GetDefaultInterface()
			require.Equal(t, [4]uint64{n.GetRxBytes().GetValue(), n.GetRxErrors().GetValue(), n.GetTxBytes().GetValue(), n.GetTxErrors().GetValue()},
				[4]uint64{got.Network.Received, got.Network.ReceiveErrors, got.Network.Sent, got.Network.TransmissionErrors})
			require.Equal(t, n.GetName(), got.Network.Interface)
			require.Equal(t, n != nil && p.GetLinux().GetNetwork().GetTimestamp() > 0, !got.Network.At.IsZero())
			for _, c := range p.GetLinux().GetContainers() {
				want := containerUsageOf("r", c)
				require.Equal(t, want.Container, containers[0].Container)
				require.Equal(t, want.uid+want.namespace+want.pod, containers[0].uid+containers[0].namespace+containers[0].pod)
				containers = containers[1:]
			}
		}
		require.Empty(t, containers)
	}
}

// An answer of any bytes is decoded or refused.
func FuzzDecodePodStats(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		var answer api.ListPodSandboxStatsResponse
		fill(r, answer.ProtoReflect())
		data, err := proto.Marshal(&answer)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, containers, err := decodePodStats("r", data, 3)
		if err == nil {
			podStatsOf(pods, containers)
		}
	})
}

// BenchmarkDecode decodes the usage of 100 pods with a container each. The reference is the generated code.
func BenchmarkDecode(b *testing.B) {
	var answer api.ListPodSandboxStatsResponse
	r := rand.New(rand.NewPCG(5, 6))
	value := func() *api.UInt64Value { return &api.UInt64Value{Value: r.Uint64N(1 << 40)} }
	for i := range 100 {
		labels := map[string]string{
			containermeta.LabelPodUID: fmt.Sprintf("%036d", i), containermeta.LabelPodNamespace: "default", containermeta.LabelPodName: fmt.Sprintf("measured-7d5f8c9b4-%05d", i),
			"app": "measured", "pod-template-hash": "7d5f8c9b4",
		}
		annotations := map[string]string{
			"kubernetes.io/config.seen": "2026-11-26T12:00:00.000000000Z", "kubernetes.io/config.source": "api",
			containermeta.AnnotationHash: "12345678", containermeta.AnnotationRestartCount: "0", containermeta.AnnotationTerminationMessagePath: "/dev/termination-log",
			containermeta.AnnotationTerminationPolicy: "File", containermeta.AnnotationTerminationGrace: "0",
		}
		cpu := &api.CpuUsage{Timestamp: 1 << 60, UsageCoreNanoSeconds: value(), UsageNanoCores: value()}
		memory := &api.MemoryUsage{Timestamp: 1 << 60, WorkingSetBytes: value(), AvailableBytes: value(), UsageBytes: value(), RssBytes: value(), PageFaults: value(), MajorPageFaults: value()}
		link := &api.NetworkInterfaceUsage{Name: "eth0", RxBytes: value(), RxErrors: value(), TxBytes: value(), TxErrors: value()}
		answer.Stats = append(answer.Stats, &api.PodSandboxStats{
			Attributes: &api.PodSandboxAttributes{Id: fmt.Sprintf("%064d", i), Metadata: &api.PodSandboxMetadata{Name: "n", Uid: "u", Namespace: "default"}, Labels: labels, Annotations: annotations},
			Linux: &api.LinuxPodSandboxStats{
				Cpu: cpu, Memory: memory, Network: &api.NetworkUsage{Timestamp: 1, DefaultInterface: link, Interfaces: []*api.NetworkInterfaceUsage{link}},
				Process: &api.ProcessUsage{Timestamp: 1, ProcessCount: value()},
				Containers: []*api.ContainerStats{{
					Attributes: &api.ContainerAttributes{Id: fmt.Sprintf("%064d", i), Metadata: &api.ContainerMetadata{Name: "main"}, Labels: labels, Annotations: annotations},
					Cpu:        cpu, Memory: memory, Swap: &api.SwapUsage{Timestamp: 1, SwapUsageBytes: value(), SwapAvailableBytes: value()},
					WritableLayer: &api.FilesystemUsage{Timestamp: 1, FsId: &api.FilesystemIdentifier{Mountpoint: "/var/lib/containerd"}, UsedBytes: value(), InodesUsed: value()},
				}},
			},
		})
	}
	data, err := proto.Marshal(&answer)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("keelson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := decodePodStats("containerd", data, 16<<10); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reference", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var out api.ListPodSandboxStatsResponse
			if err := proto.Unmarshal(data, &out); err != nil {
				b.Fatal(err)
			}
		}
	})
}
