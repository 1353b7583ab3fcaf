// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// HashCompat is the part of a container whose change restarts it in the
// kubelet: name and image, as the FNV-32a of their JSON in hex. Everything else
// may change unnoticed, which is right where an API server allows only the image
// to change; see HashSpec. The digits are not the kubelet's.
func HashCompat(c *v1.Container) string {
	h := fnvString(fnvOffset32, `{"name":`)
	h = fnvQuoted(h, c.Name)
	h = fnvString(h, `,"image":`)
	h = fnvQuoted(h, c.Image)
	h = fnvString(h, `}`)
	return strconv.FormatUint(uint64(h), 16)
}

// HashSpec is the whole container, as the FNV-64a of its JSON in hex: a change
// of anything restarts it. It is for sources that do change pods in place, such
// as a folder of manifests.
func HashSpec(c *v1.Container) string {
	h := fnv.New64a()
	// A container that has no JSON form (a quantity nobody could have parsed)
	// hashes as the part before it: still a function of the spec.
	_ = json.NewEncoder(h).Encode(c)
	return strconv.FormatUint(h.Sum64(), 16)
}

const (
	fnvOffset32 = 2166136261
	fnvPrime32  = 16777619
)

// fnvString continues the FNV-32a h over s. It is here, and not hash/fnv,
// because a plan hashes every running container and should not allocate for it.
func fnvString(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime32
	}
	return h
}

// fnvQuoted continues h over s as a JSON string.
func fnvQuoted(h uint32, s string) uint32 {
	if needsEscape(s) {
		text, _ := json.Marshal(s) // a string always has a JSON form
		return fnvString(h, string(text))
	}
	return fnvString(fnvString(fnvString(h, `"`), s), `"`)
}

// needsEscape reports whether encoding/json would write s differently from what
// it is. It may say so once too often.
func needsEscape(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ', b > '~', b == '"', b == '\\', b == '<', b == '>', b == '&':
			return true
		}
	}
	return false
}
