// SPDX-License-Identifier: Apache-2.0

package containermeta

import (
	"encoding/json"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash returns the hash of the name and the image of a container. As in the kubelet, a change of the
// hash restarts the container. The digits are equal to the kubelet's (1.36), so that each agent can
// take over the containers of the other agent: FNV-32a, in hex, of the JSON of both fields as Go
// prints a byte slice.
func Hash(c *v1.Container) string {
	h := byteSliceHash(fnvString(fnvOffset32, "([]uint8)[123")) // 123 is the first brace
	h.add(`"image":`)
	h.addQuoted(c.Image)
	h.add(`,"name":`)
	h.addQuoted(c.Name)
	h.add(`}`)
	return strconv.FormatUint(uint64(fnvString(uint32(h), "]")), 16)
}

const (
	fnvOffset32 = 2166136261
	fnvPrime32  = 16777619
)

// fnvString continues the FNV-32a h over s. Unlike hash/fnv it does not allocate: a plan hashes
// every running container.
func fnvString(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime32
	}
	return h
}

// byteSliceHash is an FNV-32a over text written as the decimal values of its
// bytes, with a space before each.
type byteSliceHash uint32

func (h *byteSliceHash) add(s string) {
	sum := uint32(*h)
	for i := range len(s) {
		sum = (sum ^ ' ') * fnvPrime32
		for _, unit := range [...]byte{100, 10, 1} {
			if s[i] >= unit {
				sum = (sum ^ uint32('0'+s[i]/unit%10)) * fnvPrime32
			}
		}
	}
	*h = byteSliceHash(sum)
}

// addQuoted adds s as a JSON string.
func (h *byteSliceHash) addQuoted(s string) {
	if needsEscape(s) {
		text, _ := json.Marshal(s) // a string always has a JSON form
		h.add(string(text))
		return
	}
	h.add(`"`)
	h.add(s)
	h.add(`"`)
}

// needsEscape reports whether encoding/json may escape a character of s. The result may be true
// for a string without escapes.
func needsEscape(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ', b > '~', b == '"', b == '\\', b == '<', b == '>', b == '&':
			return true
		}
	}
	return false
}
