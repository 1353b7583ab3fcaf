// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// podStatsAnswer is an answer of ListPodSandboxStats. It is large, readers ask for it every few
// seconds, and half of it is annotations. So it is decoded without the generated code, pod by pod
// from the buffers of the connection.
type podStatsAnswer struct {
	runtime    string // name
	pods       []sandboxUsage
	containers []containerUsage
	err        error // of an answer that cannot be decoded
}

// podStatsCodec decodes answers of ListPodSandboxStats.
type podStatsCodec struct{ encoding.CodecV2 }

func (podStatsCodec) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*podStatsAnswer).decode(data)
	return nil
}

// listPodStats calls ListPodSandboxStats.
func (r *client) listPodStats(ctx context.Context, q *api.ListPodSandboxStatsRequest, opts ...grpc.CallOption) (*podStatsAnswer, error) {
	answer := &podStatsAnswer{runtime: r.Name()}
	opts = append(opts, grpc.ForceCodecV2(podStatsCodec{encoding.GetCodecV2(proto.Name)}))
	return answer, r.conn.Invoke(ctx, api.RuntimeService_ListPodSandboxStats_FullMethodName, q, answer, opts...)
}

// usualPodSize is the least size in bytes for which an answer's number of pods is estimated from
// its size.
const usualPodSize = 256

// decode decodes an answer.
func (a *podStatsAnswer) decode(data mem.BufferSlice) {
	r := data.Reader()
	defer r.Close()
	d := &decoder{runtime: a.runtime}
	var pod []byte
	for r.Remaining() > 0 && d.err == nil {
		var isPod bool
		if pod, isPod, d.err = nextPod(r, pod); !isPod {
			continue
		}
		if a.pods == nil {
			n := 1 + r.Remaining()/max(len(pod), usualPodSize)
			a.pods, a.containers = make([]sandboxUsage, 0, n), make([]containerUsage, 0, n)
		}
		a.pods = append(a.pods, sandboxUsage{})
		a.containers = d.sandbox(pod, &a.pods[len(a.pods)-1], a.containers)
	}
	a.err = d.err
}

// nextPod reads the next field of an answer: a pod, in a buffer that is used again, or an unknown
// field.
func nextPod(r *mem.Reader, buffer []byte) (pod []byte, isPod bool, err error) {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return buffer, false, cutOff(err)
	}
	number, kind := protowire.DecodeTag(tag)
	size := 0
	switch kind {
	case protowire.VarintType:
		_, err = binary.ReadUvarint(r)
		return buffer, false, cutOff(err)
	case protowire.BytesType:
		n, err := binary.ReadUvarint(r)
		if err != nil || n > uint64(r.Remaining()) {
			return buffer, false, cutOff(cmp.Or(err, io.ErrUnexpectedEOF))
		}
		size = int(n)
	case protowire.Fixed32Type:
		size = 4
	case protowire.Fixed64Type:
		size = 8
	default:
		return buffer, false, fmt.Errorf("the answer cannot be decoded: field %d of kind %d", number, kind)
	}
	if number != 1 || kind != protowire.BytesType {
		_, err = r.Discard(size)
		return buffer, false, cutOff(err)
	}
	buffer = slices.Grow(buffer[:0], size)[:size]
	_, err = io.ReadFull(r, buffer)
	return buffer, err == nil, cutOff(err)
}

// cutOff returns the error for a failure to read an answer.
func cutOff(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the answer cannot be decoded: %w", err)
}

// owner identifies the sandbox or container of a usage, and its pod.
type owner struct{ id, uid, namespace, pod, container string }

// sandboxUsage is the usage of a sandbox.
type sandboxUsage struct {
	owner
	stats.Pod
}

// containerUsage is the usage of a container.
type containerUsage struct {
	owner
	stats.Container
}

// decoder decodes messages of api.proto of the CRI. Numbers of fields are those of the file. Unknown fields
// are skipped.
type decoder struct {
	runtime string
	err     error // of a message that is cut off
}

// fields are the fields of a message in turn.
type fields struct {
	d      *decoder
	rest   []byte
	number protowire.Number
	data   []byte // of a message or string
	n      uint64 // of a number
}

func (d *decoder) message(data []byte) *fields { return &fields{d: d, rest: data} }

// next reads a field, and returns false at the end.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.d.err != nil {
		return false
	}
	number, kind, tag := protowire.ConsumeTag(f.rest)
	size := tag
	f.number, f.data, f.n = number, nil, 0
	if tag > 0 {
		switch value := f.rest[tag:]; kind {
		case protowire.BytesType:
			f.data, size = protowire.ConsumeBytes(value)
		case protowire.VarintType:
			f.n, size = protowire.ConsumeVarint(value)
		default:
			size = protowire.ConsumeFieldValue(number, kind, value)
		}
	}
	if size < 0 {
		f.d.err = fmt.Errorf("the answer cannot be decoded: %w", protowire.ParseError(size))
		return false
	}
	f.rest = f.rest[tag+size:]
	return true
}

// sandbox decodes a PodSandboxStats, and appends the containers in it.
func (d *decoder) sandbox(data []byte, p *sandboxUsage, containers []containerUsage) []containerUsage {
	for f := d.message(data); f.next(); {
		switch f.number {
		case 1:
			p.owner = d.owner(f.data)
		case 2:
			for linux := d.message(f.data); linux.next(); {
				switch linux.number {
				case 1:
					p.CPU = d.cpu(linux.data)
				case 2:
					p.Memory = d.memory(linux.data)
				case 3:
					p.Network = d.network(linux.data)
				case 4:
					p.Processes = d.values(linux.data).n[2]
				case 5:
					containers = append(containers, d.container(linux.data))
				}
			}
		}
	}
	return containers
}

// container decodes a ContainerStats.
func (d *decoder) container(data []byte) (c containerUsage) {
	c.ID.Runtime = d.runtime
	for f := d.message(data); f.next(); {
		switch f.number {
		case 1:
			c.owner = d.owner(f.data)
			c.ID.ID, c.Name = c.owner.id, c.owner.container
		case 2:
			c.CPU = d.cpu(f.data)
		case 3:
			c.Memory = d.memory(f.data)
		case 4:
			c.WritableLayer = d.fileSystem(f.data)
		case 5:
			v := d.values(f.data)
			if v.known[3] {
				c.Swap = stats.Swap{At: timeOf(v.at), Used: v.n[3], Available: v.n[2]}
			}
		}
	}
	return c
}

// owner decodes a PodSandboxAttributes or a ContainerAttributes.
func (d *decoder) owner(data []byte) (o owner) {
	name := ""
	for f := d.message(data); f.next(); {
		switch f.number {
		case 1:
			o.id = string(f.data)
		case 2:
			for metadata := d.message(f.data); metadata.next(); {
				if metadata.number == 1 {
					name = string(metadata.data)
				}
			}
		case 3:
			d.label(f.data, &o)
		}
	}
	o.container = cmp.Or(o.container, name)
	return o
}

// label decodes an entry of a map of labels.
func (d *decoder) label(data []byte, o *owner) {
	var key, value []byte
	for f := d.message(data); f.next(); {
		switch f.number {
		case 1:
			key = f.data
		case 2:
			value = f.data
		}
	}
	switch string(key) {
	case containermeta.LabelPodUID:
		o.uid = string(value)
	case containermeta.LabelPodNamespace:
		o.namespace = string(value)
	case containermeta.LabelPodName:
		o.pod = string(value)
	case containermeta.LabelContainerName:
		o.container = string(value)
	}
}

// values are the fields of a message with a timestamp and wrapped numbers.
type values struct {
	at    int64
	n     [8]uint64
	known [8]bool
}

func (d *decoder) values(data []byte) (v values) {
	for f := d.message(data); f.next(); {
		switch {
		case f.number == 1:
			v.at = int64(f.n)
		case int(f.number) < len(v.n):
			v.known[f.number] = true
			for wrapped := d.message(f.data); wrapped.next(); {
				if wrapped.number == 1 {
					v.n[f.number] = wrapped.n
				}
			}
		}
	}
	return v
}

// cpu decodes a CpuUsage.
func (d *decoder) cpu(data []byte) stats.CPU {
	v := d.values(data)
	if !v.known[2] {
		return stats.CPU{}
	}
	return stats.CPU{At: timeOf(v.at), UsageNanoseconds: v.n[2]}
}

// memory decodes a MemoryUsage.
func (d *decoder) memory(data []byte) stats.Memory {
	v := d.values(data)
	if !v.known[2] && !v.known[4] {
		return stats.Memory{}
	}
	return stats.Memory{At: timeOf(v.at), Usage: v.n[4], WorkingSet: v.n[2], RSS: v.n[5], PageFaults: v.n[6], MajorPageFaults: v.n[7]}
}

// fileSystem decodes a FilesystemUsage.
func (d *decoder) fileSystem(data []byte) (s stats.FileSystem) {
	v := d.values(data)
	s.At, s.UsedBytes, s.InodesUsed = timeOf(v.at), v.n[3], v.n[4]
	for f := d.message(data); f.next(); {
		if f.number != 2 {
			continue
		}
		for id := d.message(f.data); id.next(); {
			if id.number == 1 {
				s.Mountpoint = string(id.data)
			}
		}
	}
	return s
}

// network decodes the default interface of a NetworkUsage.
func (d *decoder) network(data []byte) (n stats.Network) {
	var at time.Time
	known := false
	for f := d.message(data); f.next(); {
		switch f.number {
		case 1:
			at = timeOf(int64(f.n))
		case 2:
			known = true
			v := d.values(f.data)
			n.Received, n.ReceiveErrors, n.Sent, n.TransmissionErrors = v.n[2], v.n[3], v.n[4], v.n[5]
			for name := d.message(f.data); name.next(); {
				if name.number == 1 {
					n.Interface = string(name.data)
				}
			}
		}
	}
	if known {
		n.At = at
	}
	return n
}
