// SPDX-License-Identifier: Apache-2.0

package simkube_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim/simkube"
)

// entries is a map in order: keys and values take turns.
type entries []any

// pack appends a value as MessagePack, with the long forms of every type.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0)
	case bool:
		return append(b, map[bool]byte{false: 0xc2, true: 0xc3}[v])
	case int:
		if v >= 0 && v < 128 {
			return append(b, byte(v))
		}
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(int64(v)))
	case uint64:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	case string:
		if len(v) < 32 {
			return append(append(b, 0xa0|byte(len(v))), v...)
		}
		return append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(v))), v...)
	case []any:
		b = binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(len(v)))
		for _, x := range v {
			b = pack(b, x)
		}
		return b
	case entries:
		b = binary.BigEndian.AppendUint16(append(b, 0xde), uint16(len(v)/2))
		for _, x := range v {
			b = pack(b, x)
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

// deployment is an object of a trace.
func deployment(replicas any) entries {
	container := entries{"name", "main", "image", "web:1", "resources", entries{"requests", entries{"cpu", "500m"}}}
	return entries{
		"apiVersion", "apps/v1", "kind", "Deployment", "metadata", entries{"namespace", "shop", "name", "web"},
		"spec", entries{"replicas", replicas, "template", entries{"spec", entries{"containers", []any{container}}}},
	}
}

// trace returns a file with lives of web's pods.
func trace(version int, lives []any, events ...any) []byte {
	return pack(nil, entries{
		"version", version, "config", entries{"trackedObjects", entries{"example.com/v1.Farm", entries{"podSpecTemplatePath", "/spec/pods"}}},
		"events", events, "index", entries{},
		"pod_lifecycles", entries{[]any{"apps/v1.Deployment", "shop/web"}, entries{uint64(1<<63 + 7), lives}},
	})
}

func event(ts any, applied ...any) entries {
	return entries{"ts", ts, "applied_objs", applied, "deleted_objs", []any{}}
}

func ExampleRead() {
	lives := []any{entries{"Finished", []any{1000, 1060}}, entries{"Running", 1000}}
	file := trace(2, lives, event(1000), event(1010, deployment(2)), event(1500, deployment(3)))
	read, err := simkube.Read(bytes.NewReader(file), "web.sktrace")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range read.Pods {
		fmt.Println(a.At, a.Name, a.Duration, a.User, a.Shape.Requests.CPU)
	}
	// Output:
	// 10s web-0 1m0s shop 500
	// 10s web-1 0s shop 500
	// 8m20s web-2 1m0s shop 500
}

// TestIgnored: changes that no pod follows are counted.
func TestIgnored(t *testing.T) {
	farm := entries{
		"apiVersion", "example.com/v1", "kind", "Farm", "metadata", entries{"namespace", "a", "name", "farm"},
		"spec", entries{"replicas", 2, "pods", entries{"spec", entries{"containers", []any{entries{"name", "c"}}}}},
	}
	service := entries{"apiVersion", "v1", "kind", "Service", "metadata", entries{"name", "s"}}
	gone := entries{"ts", 40, "applied_objs", []any{}, "deleted_objs", []any{deployment(1)}}
	read, err := simkube.Read(bytes.NewReader(trace(2, nil, event(10, deployment(3), service, farm), event(20, deployment(1)), gone)), "f")
	require.NoError(t, err)
	assert.Equal(t, 3, read.Ignored, "a service, a smaller number of replicas and a deletion")
	assert.Len(t, read.Pods, 5)
	assert.Equal(t, time.Duration(0), read.Pods[0].At)
}

func TestReadErrors(t *testing.T) {
	good := trace(2, nil, event(10, deployment(1)))
	bare := entries{"apiVersion", "v1", "kind", "Pod", "metadata", entries{"name", "p"}, "spec", entries{}}
	for want, file := range map[string][]byte{
		"f: byte 0: the file ends":                                           nil,
		"f: version: 1 is not 2":                                             trace(1, nil),
		"f: events[1].ts: 5 is not a second":                                 trace(2, nil, event(10), event(5)),
		"f: events[0].ts: x is not a second":                                 trace(2, nil, event("x")),
		"f: events[0].applied_objs[0]: apps/v1.Deployment shop/web: spec.re": trace(2, nil, event(1, deployment(-1))),
		"applied_objs[0]: v1.Pod /p: pod: spec.containers: missing":          trace(2, nil, event(1, bare)),
		"applied_objs[0]: apiVersion, kind or metadata.name: missing":        trace(2, nil, event(1, entries{})),
		"pod_lifecycles: apps/v1.Deployment shop/web: life 0: Finished":      trace(2, []any{entries{"Finished", []any{9, 8}}}),
		"life 0: map[start_ts:1]: want Running or Finished":                  trace(2, []any{entries{"start_ts", 1}}),
		"the type 0xc1 is not part of a trace":                               {0x91, 0xc1},
		"values within one another":                                          bytes.Repeat([]byte{0x91}, 200),
	} {
		_, err := simkube.Read(bytes.NewReader(file), "f")
		assert.ErrorContains(t, err, want)
	}
	for n := range good { // a file that is cut anywhere is an error
		_, err := simkube.Read(bytes.NewReader(good[:n]), "f")
		assert.Error(t, err, n)
	}
}

// FuzzRead: no file makes the reader panic or take much memory.
func FuzzRead(f *testing.F) {
	f.Add(trace(2, []any{entries{"Running", 1}}, event(10, deployment(1))))
	f.Fuzz(func(_ *testing.T, file []byte) {
		_, _ = simkube.Read(bytes.NewReader(file), "f")
	})
}
