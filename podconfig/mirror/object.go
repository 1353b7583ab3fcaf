// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// ErrNode is wrapped if no node object can own a mirror pod.
var ErrNode = errors.New("mirror: node unknown")

// IsMirrorOf reports whether mirror shows the current content of static: they have the same name
// and namespace, and the annotation podconfig.AnnotationMirror equals the hash of static, which is
// podconfig.AnnotationHash or else a hash of the content. As in the kubelet (1.36).
func IsMirrorOf(mirror, static *v1.Pod) bool {
	hash, isMirror := mirror.Annotations[podconfig.AnnotationMirror]
	return isMirror && nameOf(mirror) == nameOf(static) && hash == hashOf(static)
}

// hashOf returns a hash of the content of a static pod: the annotation podconfig.AnnotationHash,
// set by package manifest. Without the annotation, hashOf computes the hash from labels,
// annotations and spec, so that edits of pods from other sources are noticed, too.
func hashOf(static *v1.Pod) string {
	if hash := static.Annotations[podconfig.AnnotationHash]; hash != "" {
		return hash
	}
	annotations := maps.Clone(static.Annotations)
	for _, local := range []string{podconfig.AnnotationSource, podconfig.AnnotationFirstSeen, podconfig.AnnotationMirror} {
		delete(annotations, local)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	content := v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: static.Labels, Annotations: annotations}, Spec: static.Spec}
	text, err := json.Marshal(content)
	if err != nil {
		text = []byte(static.UID) // marshalling a v1.Pod never fails; a constant would hide every edit
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// New returns the mirror pod of a static pod on a node: a copy with the annotation
// podconfig.AnnotationMirror. The node owns the mirror pod, so that both are deleted together. The
// NodeRestriction admission plugin accepts the mirror pod from the node, if the pod references no
// API objects. An error wraps ErrNode.
func New(static *v1.Pod, node *v1.Node) (*v1.Pod, error) {
	if node == nil || node.UID == "" {
		return nil, fmt.Errorf("%w: it has no UID", ErrNode)
	}
	p := static.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, Annotations: p.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
		}},
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[podconfig.AnnotationMirror] = hashOf(static)
	return p, nil
}
