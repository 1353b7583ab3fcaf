// SPDX-License-Identifier: Apache-2.0

package natsbus

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The first parts of keys.
const (
	podKeys       = "pods"
	configMapKeys = "configmaps"
	secretKeys    = "secrets"
)

// token returns a name as a part of a key.
func token(name string) string { return strings.ReplaceAll(name, ".", "/") }

// Key returns the key of a pod for a node. For a ConfigMap or a Secret, kind is "configmaps" or
// "secrets".
func Key(kind, node string, name types.NamespacedName) string {
	return strings.Join([]string{kind, token(node), token(name.Namespace), token(name.Name)}, ".")
}

// parseKey returns the kind and name of a key.
func parseKey(key string) (kind string, name types.NamespacedName, err error) {
	parts := strings.Split(key, ".")
	if len(parts) != 4 {
		return "", name, fmt.Errorf("key %q: want KIND.NODE.NAMESPACE.NAME, with / for a dot in a name", key)
	}
	return parts[0], types.NamespacedName{Namespace: parts[2], Name: strings.ReplaceAll(parts[3], "/", ".")}, nil
}
