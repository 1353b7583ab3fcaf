// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
)

// Annotations of pods.
const (
	// AnnotationPolicy is Replace or Transactional.
	AnnotationPolicy = podconfig.AnnotationUpdate
	// AnnotationGroup names a group of pods of the same namespace and source that change together.
	AnnotationGroup = "keelson.dev/update-group"
	// AnnotationReady and AnnotationDeadline are those of Gate, in seconds.
	AnnotationReady    = podconfig.AnnotationUpdateReady
	AnnotationDeadline = podconfig.AnnotationUpdateDeadline
	// AnnotationHold delays the switch to a staged version as long as it is "true".
	AnnotationHold = podconfig.AnnotationUpdateHold
	// AnnotationVersion is set on pods of transactional updates: the hash of their version.
	AnnotationVersion = "keelson.dev/version"
)

// Policy says how a pod is replaced by a newer version.
type Policy string

const (
	// Replace stops the running pod, and then starts the new pod, as the kubelet does.
	Replace Policy = "Replace"
	// Transactional is the policy of this package.
	Transactional Policy = "Transactional"
)

// unitID identifies a unit: a pod, or a group of pods.
type unitID struct {
	Source    string `json:"source"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty"`
}

// String returns the name of the unit for people: that of the pod, or "group NAME".
func (id unitID) String() string {
	if id.Group {
		return "group " + id.Namespace + "/" + id.Name
	}
	return id.Namespace + "/" + id.Name
}

// maxFolder limits the length of a folder's name. File systems allow 255 bytes.
const maxFolder = 200

// folder returns the name of the unit's folder.
func (id unitID) folder() string {
	name := id.Source + "_" + id.Namespace + "_" + id.Name
	if id.Group {
		name += "_group"
	}
	if len(name) <= maxFolder {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxFolder-17] + "_" + hex.EncodeToString(sum[:8])
}

// idOf returns the unit of a pod.
func idOf(source string, pod *v1.Pod) unitID {
	if group := pod.Annotations[AnnotationGroup]; group != "" {
		return unitID{source, pod.Namespace, group, true}
	}
	return unitID{source, pod.Namespace, pod.Name, false}
}

// hashOf returns the hash of a version. The hash does not depend on the hold, or on fields that a
// source or an API server changes without a change of the content.
func hashOf(pods []*v1.Pod) (string, error) {
	sum := sha256.New()
	for _, pod := range pods {
		annotations := maps.Clone(pod.Annotations)
		maps.DeleteFunc(annotations, func(key, _ string) bool {
			return key == AnnotationHold || strings.HasPrefix(key, "kubernetes.io/config.")
		})
		data, err := json.Marshal(struct {
			Namespace, Name     string
			Labels, Annotations map[string]string `json:",omitempty"`
			Spec                *v1.PodSpec
		}{pod.Namespace, pod.Name, pod.Labels, annotations, &pod.Spec})
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// check returns the annotations of a pod that are wrong.
func check(pod *v1.Pod) (refused []string) {
	wrong := func(key, want string) {
		refused = append(refused, fmt.Sprintf("metadata.annotations[%s] %q (want %s)", key, pod.Annotations[key], want))
	}
	switch p := pod.Annotations[AnnotationPolicy]; Policy(p) {
	case "", Replace, Transactional:
	default:
		wrong(AnnotationPolicy, string(Replace)+" or "+string(Transactional))
	}
	for _, key := range []string{AnnotationReady, AnnotationDeadline} {
		if text, ok := pod.Annotations[key]; ok && seconds(text) == 0 {
			wrong(key, "a number of seconds above 0")
		}
	}
	if text, ok := pod.Annotations[AnnotationHold]; ok && text != "true" && text != "false" {
		wrong(AnnotationHold, "true or false")
	}
	return refused
}

// seconds parses a number of seconds, with 0 for an invalid number.
func seconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// gateOf returns the gate of a version: the longest times of its pods.
func gateOf(pods []*v1.Pod, g Gate) Gate {
	var own Gate
	for _, pod := range pods {
		own.Ready = max(own.Ready, seconds(pod.Annotations[AnnotationReady]))
		own.Deadline = max(own.Deadline, seconds(pod.Annotations[AnnotationDeadline]))
	}
	g.Ready, g.Deadline = cmp.Or(own.Ready, g.Ready), cmp.Or(own.Deadline, g.Deadline)
	return g.withDefaults()
}

// isHeld reports whether a pod of the version holds the switch.
func isHeld(pods []*v1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.Annotations[AnnotationHold] == "true" })
}

// runnable returns a pod as the node runs it. The images of a staged version are present, so
// that an image with the pull policy Always is not pulled again when a container starts. The result
// shares memory with pod. Do not edit either.
func runnable(pod *v1.Pod, hash string, staged bool) *v1.Pod {
	c := *pod
	if staged && slices.ContainsFunc(imagesOf(pod), isPulledAlways) {
		c = *pod.DeepCopy()
		for _, image := range imagesOf(&c) {
			if isPulledAlways(image) {
				*image.policy = v1.PullIfNotPresent
			}
		}
	}
	c.Annotations = maps.Clone(pod.Annotations)
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[AnnotationVersion] = hash
	return &c
}

// image is a reference to an image, with the field of its pull policy.
type image struct {
	name   string
	policy *v1.PullPolicy
}

func isPulledAlways(i image) bool { return *i.policy == v1.PullAlways }

// imagesOf returns the images of a pod's containers and volumes.
func imagesOf(pod *v1.Pod) (all []image) {
	for c := range podfacts.Containers(&pod.Spec) {
		all = append(all, image{c.Image, &c.ImagePullPolicy})
	}
	for i := range pod.Spec.Volumes {
		if vol := pod.Spec.Volumes[i].Image; vol != nil {
			all = append(all, image{vol.Reference, &vol.PullPolicy})
		}
	}
	return slices.DeleteFunc(all, func(i image) bool { return i.name == "" })
}

// podName identifies a pod of a source.
func podName(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
