// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podconfig"
)

// ContentUID identifies a pod by the content of its manifest, the node and the origin. Any edit
// beyond white space, comments or order of keys results in a new pod; moving the file does, too.
// The UID has 32 hexadecimal digits, 128 bits of a SHA-256.
//
// The kubelet (1.36) hashes a dump of its internal types. Its UIDs cannot be reproduced elsewhere,
// and change with the types.
func ContentUID(m Manifest) types.UID {
	return digest("content", string(m.NodeName), string(m.Origin.Kind), m.Origin.Location, string(m.Canonical))
}

// PathUID identifies a pod by its namespace, name, node and origin. An edit updates the pod in
// place, as far as the workers support it. Moving the file results in a new pod.
func PathUID(m Manifest) types.UID {
	return digest("path", string(m.NodeName), string(m.Origin.Kind), m.Origin.Location, m.Namespace, m.Name)
}

// digest hashes the parts with their lengths, so that different lists of parts do not collide.
func digest(parts ...string) types.UID {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// identify sets the UID and the hash annotation. The annotation is always the hash of the content,
// so that a mirror pod is refreshed after an edit even if the UID stays (kubernetes issue 103374).
func (d *Decoder) identify(pod *v1.Pod, canonical []byte, o Origin) field.ErrorList {
	m := Manifest{Canonical: canonical, Namespace: pod.Namespace, Name: pod.Name, NodeName: d.NodeName, Origin: o}
	if pod.UID == "" {
		if d.UID != nil {
			pod.UID = d.UID(m)
		} else {
			pod.UID = ContentUID(m)
		}
	}
	if !isUID(string(pod.UID)) {
		return uidError(string(pod.UID))
	}
	pod.Annotations[podconfig.AnnotationHash] = string(ContentUID(m))
	return nil
}

// isUID reports whether s is safe as a folder name, because UIDs are used as folder names.
func isUID(s string) bool {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_."
	foreign := func(r rune) bool { return !strings.ContainsRune(allowed, r) }
	return s != "" && len(s) <= 128 && !strings.ContainsAny(s[:1], "-.") && !strings.ContainsFunc(s, foreign)
}

func uidError(uid string) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), shorten(uid),
		"must be 1 to 128 letters, digits, '-', '_' or '.', and begin with none of '-' and '.'")}
}
