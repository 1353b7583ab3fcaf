// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// The types of this package have the fields of k8s.io/api/apps/v1 and batch/v1 that a manifest may
// have. A json.RawMessage is a field that is refused if present, or ignored. This package does not
// import the packages of these types, because their initialization costs every program memory.

// object is a manifest of a kind with the spec S.
type object[S any] struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            S                 `json:"spec"`
}

// rollout has the fields about updates that several kinds have.
type rollout struct {
	MinReadySeconds         int32           `json:"minReadySeconds"`
	ProgressDeadlineSeconds int32           `json:"progressDeadlineSeconds"`
	RevisionHistoryLimit    json.RawMessage `json:"revisionHistoryLimit"`
	Paused                  bool            `json:"paused"`
}

// annotations are those of pods for transactional updates.
func (r rollout) annotations() map[string]string {
	all := map[string]string{}
	if r.MinReadySeconds > 0 {
		all[podconfig.AnnotationUpdateReady] = strconv.Itoa(int(r.MinReadySeconds))
	}
	if r.ProgressDeadlineSeconds > 0 {
		all[podconfig.AnnotationUpdateDeadline] = strconv.Itoa(int(r.ProgressDeadlineSeconds))
	}
	if r.Paused {
		all[podconfig.AnnotationUpdateHold] = "true"
	}
	return all
}

type strategy struct {
	Type          string          `json:"type"`
	RollingUpdate *rollingOptions `json:"rollingUpdate"`
}

type rollingOptions struct {
	MaxSurge       json.RawMessage `json:"maxSurge"`
	MaxUnavailable json.RawMessage `json:"maxUnavailable"`
	Partition      int32           `json:"partition"`
}

type deploymentSpec struct {
	rollout  `json:",inline"`
	Replicas *int32                `json:"replicas"`
	Selector *metav1.LabelSelector `json:"selector"`
	Template v1.PodTemplateSpec    `json:"template"`
	Strategy strategy              `json:"strategy"`
}

// template is the path of the pod template in most kinds.
var template = []string{"spec", "template"}

// Limits of a node. The names of pods have to fit the name of the node, too.
const (
	maxReplicas   = 500
	maxNameLength = 180
)

func (e *expansion) addDeployment() {
	var d object[deploymentSpec]
	if !e.decode(&d) || !e.name(&d.Metadata, maxNameLength) || !e.selects(d.Spec.Selector, d.Spec.Template.Labels) {
		return
	}
	switch s := d.Spec.Strategy; {
	case s.Type != "" && s.Type != "RollingUpdate" && s.Type != "Recreate":
		e.refuse("spec.strategy.type", "want RollingUpdate or Recreate")
	case s.RollingUpdate != nil:
		e.notice("spec.strategy.rollingUpdate", "ignored: each pod of this node is replaced in its place, see the annotation "+podconfig.AnnotationUpdate)
	}
	t := manifest.Template{Path: template, Namespace: d.Metadata.Namespace, Annotations: d.Spec.annotations()}
	e.addReplicas(t, d.Metadata.Name, d.Spec.Replicas)
}

type replicaSetSpec struct {
	MinReadySeconds int32                 `json:"minReadySeconds"`
	Replicas        *int32                `json:"replicas"`
	Selector        *metav1.LabelSelector `json:"selector"`
	Template        v1.PodTemplateSpec    `json:"template"`
}

func (e *expansion) addReplicaSet() {
	var r object[replicaSetSpec]
	if !e.decode(&r) || !e.name(&r.Metadata, maxNameLength) || !e.selects(r.Spec.Selector, r.Spec.Template.Labels) {
		return
	}
	t := manifest.Template{Path: template, Namespace: r.Metadata.Namespace, Annotations: rollout{MinReadySeconds: r.Spec.MinReadySeconds}.annotations()}
	e.addReplicas(t, r.Metadata.Name, r.Spec.Replicas)
}

type replicationControllerSpec struct {
	MinReadySeconds int32              `json:"minReadySeconds"`
	Replicas        *int32             `json:"replicas"`
	Selector        map[string]string  `json:"selector"`
	Template        v1.PodTemplateSpec `json:"template"`
}

func (e *expansion) addReplicationController() {
	var r object[replicationControllerSpec]
	if !e.decode(&r) || !e.name(&r.Metadata, maxNameLength) {
		return
	}
	if len(r.Spec.Selector) > 0 && !e.selects(&metav1.LabelSelector{MatchLabels: r.Spec.Selector}, r.Spec.Template.Labels) {
		return
	}
	t := manifest.Template{Path: template, Namespace: r.Metadata.Namespace, Annotations: rollout{MinReadySeconds: r.Spec.MinReadySeconds}.annotations()}
	e.addReplicas(t, r.Metadata.Name, r.Spec.Replicas)
}

type daemonSetSpec struct {
	MinReadySeconds      int32                 `json:"minReadySeconds"`
	RevisionHistoryLimit json.RawMessage       `json:"revisionHistoryLimit"`
	Selector             *metav1.LabelSelector `json:"selector"`
	Template             v1.PodTemplateSpec    `json:"template"`
	UpdateStrategy       strategy              `json:"updateStrategy"`
}

func (e *expansion) addDaemonSet() {
	var d object[daemonSetSpec]
	if !e.decode(&d) || !e.name(&d.Metadata, maxNameLength) || !e.selects(d.Spec.Selector, d.Spec.Template.Labels) || !e.rolls(d.Spec.UpdateStrategy) {
		return
	}
	t := manifest.Template{Path: template, Namespace: d.Metadata.Namespace, Annotations: rollout{MinReadySeconds: d.Spec.MinReadySeconds}.annotations()}
	for key, value := range d.Spec.Template.Spec.NodeSelector {
		if e.NodeLabels[key] != value {
			e.notice("spec.template.spec.nodeSelector", "no pod: this node has other labels")
			e.addAbsent(t, d.Metadata.Name)
			return
		}
	}
	e.addPods(t, "", d.Metadata.Name)
}

type statefulSetSpec struct {
	MinReadySeconds      int32                 `json:"minReadySeconds"`
	RevisionHistoryLimit json.RawMessage       `json:"revisionHistoryLimit"`
	Replicas             *int32                `json:"replicas"`
	Selector             *metav1.LabelSelector `json:"selector"`
	Template             v1.PodTemplateSpec    `json:"template"`
	ServiceName          string                `json:"serviceName"`
	PodManagementPolicy  string                `json:"podManagementPolicy"`
	UpdateStrategy       strategy              `json:"updateStrategy"`
	Ordinals             struct {
		Start int32 `json:"start"`
	} `json:"ordinals"`
	VolumeClaimTemplates []object[claimSpec] `json:"volumeClaimTemplates"`
	ClaimRetention       map[string]string   `json:"persistentVolumeClaimRetentionPolicy"`
}

func (e *expansion) addStatefulSet() {
	var s object[statefulSetSpec]
	if !e.decode(&s) || !e.name(&s.Metadata, maxNameLength) || !e.selects(s.Spec.Selector, s.Spec.Template.Labels) || !e.rolls(s.Spec.UpdateStrategy) {
		return
	}
	names, ok := e.replicas(s.Metadata.Name, s.Spec.Replicas, s.Spec.Ordinals.Start)
	switch policy := s.Spec.PodManagementPolicy; {
	case !ok:
		return
	case policy != "" && policy != "OrderedReady" && policy != "Parallel":
		e.refuse("spec.podManagementPolicy", "want Parallel or OrderedReady")
		return
	case policy != "Parallel" && len(names) > 1:
		e.notice("spec.podManagementPolicy", "the pods of this node start together, as with Parallel")
	}
	for _, when := range []string{"whenDeleted", "whenScaled"} {
		if policy := s.Spec.ClaimRetention[when]; policy != "" && policy != "Retain" {
			e.refuse("spec.persistentVolumeClaimRetentionPolicy["+when+"]", "want Retain: claims of this node are never deleted by themselves")
			return
		}
	}
	if !e.checkClaimTemplates(&s, names) {
		return
	}
	if len(names) == 0 {
		name := fmt.Sprintf("%s-%d", s.Metadata.Name, s.Spec.Ordinals.Start)
		t, _ := memberOf(&s, name)
		e.addAbsent(t, name)
	}
	for _, name := range names {
		t, claims := memberOf(&s, name)
		e.set.Claims = append(e.set.Claims, claims...)
		pods := e.addPods(t, "spec.replicas", name)
		if pods == nil {
			return
		}
		if name == names[0] && len(names) > 1 {
			e.checkPorts(pods[0], "spec.replicas", len(names))
		}
	}
}

// checkClaimTemplates checks the claims of the pods of a StatefulSet.
func (e *expansion) checkClaimTemplates(s *object[statefulSetSpec], names []string) bool {
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		path := fmt.Sprintf("spec.volumeClaimTemplates[%d].", i)
		if len(validation.IsDNS1123Label(c.Metadata.Name)) > 0 {
			e.refuse(path+"metadata.name", "Required value: the name of a volume, at most 63 lower-case letters, digits and '-'")
			return false
		}
		var claims []string
		for _, name := range names {
			claims = append(claims, c.Metadata.Name+"-"+name)
		}
		c.Metadata.Namespace = s.Metadata.Namespace
		if !e.checkClaim(path, c, claims...) {
			return false
		}
	}
	return true
}

// memberOf returns the template of a pod of a StatefulSet, and the pod's claims.
func memberOf(s *object[statefulSetSpec], name string) (t manifest.Template, claims []*v1.PersistentVolumeClaim) {
	t = manifest.Template{
		Path: template, Namespace: s.Metadata.Namespace, Hostname: name,
		Labels:      map[string]string{"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": name[len(s.Metadata.Name)+1:]},
		Annotations: rollout{MinReadySeconds: s.Spec.MinReadySeconds}.annotations(),
	}
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		claim := c.Spec.claim(s.Metadata.Namespace, c.Metadata.Name+"-"+name, c.Metadata.Labels)
		claims = append(claims, claim)
		t.Volumes = append(t.Volumes, v1.Volume{Name: c.Metadata.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	return t, claims
}

// addReplicas adds n pods of a template.
func (e *expansion) addReplicas(t manifest.Template, name string, n *int32) {
	names, ok := e.replicas(name, n, 0)
	switch {
	case !ok:
	case len(names) == 0:
		e.addAbsent(t, name+"-0")
	default:
		e.addPods(t, "spec.replicas", names...)
	}
}

// replicas returns the names of n pods, and whether n is valid.
func (e *expansion) replicas(name string, n *int32, start int32) (names []string, ok bool) {
	count := int32(1)
	if n != nil {
		count = *n
	}
	if count < 0 || count > maxReplicas || start < 0 {
		e.refuse("spec.replicas", fmt.Sprintf("want 0 to %d", maxReplicas))
		return nil, false
	}
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", name, start+i))
	}
	return names, true
}

// selects checks that a selector is present and selects the pods of the template.
func (e *expansion) selects(selector *metav1.LabelSelector, template map[string]string) bool {
	if selector == nil {
		e.refuse("spec.selector", "Required value: the labels of the template")
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		e.refuse("spec.selector", "no selector: "+err.Error())
		return false
	}
	if s.Empty() || !s.Matches(labels.Set(template)) {
		e.refuse("spec.selector", "it does not select the pods of spec.template: use the same labels")
		return false
	}
	return true
}

// rolls checks the update strategy of a DaemonSet or StatefulSet.
func (e *expansion) rolls(s strategy) bool {
	if s.Type != "" && s.Type != "RollingUpdate" {
		e.refuse("spec.updateStrategy.type", "want RollingUpdate: pods of this node follow their manifest; to delay a change, set the annotation "+podconfig.AnnotationUpdateHold)
		return false
	}
	if s.RollingUpdate != nil && s.RollingUpdate.Partition > 0 {
		e.refuse("spec.updateStrategy.rollingUpdate.partition", "all pods of this node change with their manifest: remove it")
		return false
	}
	if s.RollingUpdate != nil {
		e.notice("spec.updateStrategy.rollingUpdate", "ignored: each pod of this node is replaced in its place")
	}
	return true
}
