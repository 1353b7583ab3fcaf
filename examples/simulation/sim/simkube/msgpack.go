// SPDX-License-Identifier: Apache-2.0

package simkube

import (
	"encoding/binary"
	"fmt"
	"math"
)

// pair is an entry of a map. Keys of a trace may be arrays.
type pair struct{ key, value any }

// reader decodes MessagePack: nil, bool, int64, uint64, float64, string, []any and []pair.
type reader struct {
	data  []byte
	at    int
	depth int
}

// maxDepth is the deepest nesting of a trace.
const maxDepth = 100

func (r *reader) errorf(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", r.at, fmt.Sprintf(format, args...))
}

// take returns the next n bytes.
func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, r.errorf("the file ends within a value")
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *reader) number(size uint64) (uint64, error) {
	b, err := r.take(size)
	if err != nil {
		return 0, err
	}
	var full [8]byte
	copy(full[8-size:], b)
	return binary.BigEndian.Uint64(full[:]), nil
}

// value reads a value.
func (r *reader) value() (any, error) {
	head, err := r.take(1)
	if err != nil {
		return nil, err
	}
	c := head[0]
	switch {
	case c <= 0x7f:
		return int64(c), nil
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c <= 0x8f:
		return r.entries(uint64(c & 0x0f))
	case c <= 0x9f:
		return r.array(uint64(c & 0x0f))
	case c <= 0xbf:
		return r.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, nil
	case c == 0xc2 || c == 0xc3:
		return c == 0xc3, nil
	case c >= 0xca && c <= 0xd3:
		return r.scalar(c)
	case c >= 0xc4 && c <= 0xc6 || c >= 0xd9 && c <= 0xdf:
		return r.sized(c)
	}
	return nil, r.errorf("the type %#x is not part of a trace", c)
}

// scalar reads a float or an integer with a size of its own.
func (r *reader) scalar(c byte) (any, error) {
	switch c {
	case 0xca:
		n, err := r.number(4)
		return float64(math.Float32frombits(uint32(n))), err
	case 0xcb:
		n, err := r.number(8)
		return math.Float64frombits(n), err
	}
	if c < 0xd0 {
		n, err := r.number(1 << (c - 0xcc))
		if n > math.MaxInt64 {
			return n, err
		}
		return int64(n), err
	}
	size := uint64(1) << (c - 0xd0)
	n, err := r.number(size)
	shift := 64 - 8*size
	return int64(n<<shift) >> shift, err
}

// sized reads a string, bytes, an array or a map whose length follows.
func (r *reader) sized(c byte) (any, error) {
	width := map[byte]uint64{0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}[c]
	n, err := r.number(width)
	switch {
	case err != nil:
		return nil, err
	case c == 0xdc || c == 0xdd:
		return r.array(n)
	case c == 0xde || c == 0xdf:
		return r.entries(n)
	}
	return r.text(n)
}

func (r *reader) text(n uint64) (any, error) {
	b, err := r.take(n)
	return string(b), err
}

// enter checks the length and the depth of an array or a map.
func (r *reader) enter(n uint64) error {
	if n > uint64(len(r.data)-r.at) {
		return r.errorf("the file ends within a value")
	}
	if r.depth++; r.depth > maxDepth {
		return r.errorf("more than %d values within one another", maxDepth)
	}
	return nil
}

func (r *reader) array(n uint64) (any, error) {
	if err := r.enter(n); err != nil {
		return nil, err
	}
	out := make([]any, n)
	for i := range out {
		var err error
		if out[i], err = r.value(); err != nil {
			return nil, err
		}
	}
	r.depth--
	return out, nil
}

func (r *reader) entries(n uint64) (any, error) {
	if err := r.enter(n); err != nil {
		return nil, err
	}
	out := make([]pair, n)
	for i := range out {
		var err error
		if out[i].key, err = r.value(); err != nil {
			return nil, err
		}
		if out[i].value, err = r.value(); err != nil {
			return nil, err
		}
	}
	r.depth--
	return out, nil
}

// field returns an entry of a map by its key, or nil.
func field(v any, names ...string) any {
	for _, name := range names {
		entries, _ := v.([]pair)
		v = nil
		for _, e := range entries {
			if e.key == name {
				v = e.value
			}
		}
	}
	return v
}

// plain turns maps with keys of text into maps for package json.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case []pair:
		out := make(map[string]any, len(v))
		for _, e := range v {
			out[fmt.Sprint(e.key)] = plain(e.value)
		}
		return out
	}
	return v
}
