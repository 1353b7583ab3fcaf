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

// ContentUID identifies a pod by everything its manifest says, the node and the origin: any edit that is more than
// white space, comments, or order of keys makes a new pod, and so does moving the file. It is 32 hexadecimal digits,
// 128 bits of a SHA-256.
//
// The kubelet (1.36) hashes a dump of its internal types instead: its UIDs cannot be reproduced outside of it, and they
// change when those types do.
func ContentUID(m Manifest) types.UID {
	return digest("content", string(m.NodeName), string(m.Origin.Kind), m.Origin.Location, string(m.Canonical))
}

// PathUID identifies a pod by its namespace, name, node and origin: an edit updates the pod in place, and what cannot
// be updated in place is up to the workers. Moving the file still makes a new pod.
func PathUID(m Manifest) types.UID {
	return digest("path", string(m.NodeName), string(m.Origin.Kind), m.Origin.Location, m.Namespace, m.Name)
}

// digest hashes the parts with their lengths, so that no two lists of parts collide.
func digest(parts ...string) types.UID {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// identify sets the UID and the hash annotation. The hash is always that of the content, so that a mirror pod is
// refreshed after an edit also when the UID stays (kubernetes issue 103374).
func (d *Decoder) identify(pod *v1.Pod, canonical []byte, o Origin) error {
	m := Manifest{Canonical: canonical, Namespace: pod.Namespace, Name: pod.Name, NodeName: d.NodeName, Origin: o}
	if pod.UID == "" {
		if d.UID != nil {
			pod.UID = d.UID(m)
		} else {
			pod.UID = ContentUID(m)
		}
	}
	if !isUID(string(pod.UID)) {
		return &InvalidError{Errs: uidError(string(pod.UID))}
	}
	pod.Annotations[podconfig.AnnotationHash] = string(ContentUID(m))
	return nil
}

// isUID accepts what is safe as a folder's name, as a UID will be one.
func isUID(s string) bool {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_."
	foreign := func(r rune) bool { return !strings.ContainsRune(allowed, r) }
	return s != "" && len(s) <= 128 && !strings.ContainsAny(s[:1], "-.") && !strings.ContainsFunc(s, foreign)
}

func uidError(uid string) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), shorten(uid),
		"must be 1 to 128 letters, digits, '-', '_' or '.', and begin with none of '-' and '.'")}
}
