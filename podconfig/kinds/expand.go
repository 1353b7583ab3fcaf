// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// Expander turns manifests into the pods and objects of a node. Do not change the fields during use.
// The methods are safe for concurrent use if the functions of the Decoder are.
type Expander struct {
	// Decoder decodes the pods, strictly. Decoder.Policy decides about references of the pods to other
	// objects. Required.
	Decoder *manifest.Decoder
	// NodeLabels are the labels of the node, for the nodeSelector of a DaemonSet. Defaults to none.
	NodeLabels map[string]string
	// Classes are the names of storage classes that a claim may ask for. A claim without a class is
	// accepted, too. Defaults to "local".
	Classes []string
	// Bound reports whether a claim has its volume already. As in Kubernetes, a bound claim stays
	// without its class: it is accepted with a notice. Defaults to no claim.
	Bound func(namespace, name string) bool
	// Warn receives a line for each field or object that is accepted without effect. It is called
	// within Pods. Defaults to no call.
	Warn func(o manifest.Origin, warning string)
}

// Set is the content of a manifest.
type Set struct {
	Pods       []*v1.Pod
	ConfigMaps []*v1.ConfigMap
	Secrets    []*v1.Secret
	Claims     []*v1.PersistentVolumeClaim
	Services   []*v1.Service
	Jobs       []*Job
	CronJobs   []*CronJob
	// Notices has a line for each field or object that is accepted without effect. A line begins
	// with the position.
	Notices []string
}

// DefaultClass is the default of Expander.Classes.
const DefaultClass = "local"

// Check returns nil, or an error that names the invalid field.
func (x *Expander) Check() error {
	if x == nil {
		return errors.New("kinds: the Expander is nil")
	}
	if err := x.Decoder.Check(); err != nil {
		return fmt.Errorf("kinds: Expander.Decoder: %w", err)
	}
	if !x.Decoder.Strict {
		return errors.New("kinds: Expander.Decoder must be strict")
	}
	return nil
}

// Expand returns the pods and objects of a manifest. The caller owns the result. The error is an error
// of Check, or a *manifest.Error with all problems of the manifest: a single invalid object makes the whole
// manifest invalid.
func (x *Expander) Expand(data []byte, o manifest.Origin) (*Set, error) {
	if err := x.Check(); err != nil {
		return nil, err
	}
	docs, err := manifest.Documents(data, x.Decoder.Limit())
	if err != nil {
		return nil, err
	}
	e := &expansion{Expander: x, origin: o, set: &Set{}, seen: map[string]bool{}}
	for _, doc := range docs {
		e.add(doc)
	}
	e.checkServices()
	if len(e.problems) > 0 {
		return nil, &manifest.Error{Problems: e.problems}
	}
	return e.set, nil
}

// Pods returns the pods of a manifest, and its other objects as carriers for a Controller. It fits
// the field Decode of the file and URL sources.
func (x *Expander) Pods(data []byte, o manifest.Origin) ([]*v1.Pod, error) {
	set, err := x.Expand(data, o)
	if err != nil {
		return nil, err
	}
	if x.Warn != nil {
		for _, notice := range set.Notices {
			x.Warn(o, notice)
		}
	}
	return set.carry()
}

// expansion is the state of a call of Expand.
type expansion struct {
	*Expander
	origin   manifest.Origin
	set      *Set
	problems []manifest.Problem
	seen     map[string]bool // objects, by kind, namespace and name
	services []service       // to be checked when all pods are known
	absent   []*v1.Pod       // of pod templates without a pod at the moment

	doc *manifest.Document // the current object
}

// versions are the kinds with a meaning on a node, with their apiVersion.
var versions = map[string]string{
	"Pod": "v1", "ConfigMap": "v1", "Secret": "v1", "PersistentVolumeClaim": "v1", "Service": "v1", "ReplicationController": "v1",
	"PodList": "v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
}

// add adds an object to the result.
func (e *expansion) add(doc *manifest.Document) {
	e.doc = doc
	kind := doc.Kind()
	want, known := versions[kind]
	switch {
	case !known:
		e.withoutMeaning()
		return
	case doc.APIVersion() != want:
		e.refuse("apiVersion", fmt.Sprintf("a %s of this node has the apiVersion %q", kind, want))
		return
	}
	switch kind {
	case "Pod":
		e.addPods(manifest.Template{}, "")
	case "PodList":
		e.refuse("kind", "write a List, or the pods as documents")
	case "ConfigMap":
		e.addConfigMap()
	case "Secret":
		e.addSecret()
	case "PersistentVolumeClaim":
		e.addClaim()
	case "Service":
		e.addService()
	case "Deployment":
		e.addDeployment()
	case "ReplicaSet":
		e.addReplicaSet()
	case "ReplicationController":
		e.addReplicationController()
	case "DaemonSet":
		e.addDaemonSet()
	case "StatefulSet":
		e.addStatefulSet()
	case "Job":
		e.addJob()
	case "CronJob":
		e.addCronJob()
	}
}

func (e *expansion) refuse(field, text string) {
	e.problems = append(e.problems, e.doc.Problem(field, text))
}

// refuseField refuses a field that is present, at its key.
func (e *expansion) refuseField(field, text string) {
	e.problems = append(e.problems, e.doc.KeyProblem(field, text))
}

func (e *expansion) notice(field, text string) {
	e.set.Notices = append(e.set.Notices, e.doc.KeyProblem(field, text).String())
}

// decode decodes the current object, and reports whether the object is usable.
func (e *expansion) decode(into any) bool {
	problems := e.doc.Decode(into)
	e.problems = append(e.problems, problems...)
	return len(problems) == 0
}

// name checks the metadata of an object and completes the namespace. maxLength leaves room for the
// names of the pods.
func (e *expansion) name(meta *metav1.ObjectMeta, maxLength int) bool {
	if meta.Name == "" {
		e.refuse("metadata.name", "Required value: every object needs a name")
		return false
	}
	if faults := validation.IsDNS1123Subdomain(meta.Name); len(faults) > 0 || len(meta.Name) > maxLength {
		e.refuse("metadata.name", fmt.Sprintf("want at most %d lower-case letters, digits, '-' and '.'", maxLength))
		return false
	}
	meta.Namespace = cmp.Or(meta.Namespace, v1.NamespaceDefault)
	if len(validation.IsDNS1123Label(meta.Namespace)) > 0 {
		e.refuse("metadata.namespace", "want at most 63 lower-case letters, digits and '-'")
		return false
	}
	return e.once(e.doc.Kind(), meta.Namespace, meta.Name)
}

// once reports a second object of the same kind and name.
func (e *expansion) once(kind, namespace, name string) bool {
	key := kind + "/" + namespace + "/" + name
	if e.seen[key] {
		e.refuse("metadata.name", fmt.Sprintf("Duplicate value: the manifest has another %s of this name", kind))
		return false
	}
	e.seen[key] = true
	return true
}

// addPods makes a pod for each name, or decodes a Pod if there is none. It returns the pods.
func (e *expansion) addPods(t manifest.Template, replicasField string, names ...string) []*v1.Pod {
	var pods []*v1.Pod
	if len(t.Path) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		t.Name = name
		pod, problems := e.Decoder.Make(e.doc, t, e.origin)
		if len(problems) > 0 {
			e.problems = append(e.problems, problems...)
			return nil // the other pods have the same problems
		}
		if !e.once("Pod", pod.Namespace, pod.Name) {
			return nil
		}
		pods = append(pods, pod)
	}
	if len(pods) > 1 {
		e.checkPorts(pods[0], replicasField, len(pods))
	}
	e.set.Pods = append(e.set.Pods, pods...)
	return pods
}

// addAbsent checks a template without pods at the moment, and keeps the pod that it would have. So the
// Services of a Deployment stay valid when its replicas are set to 0.
func (e *expansion) addAbsent(t manifest.Template, name string) {
	t.Name = name
	pod, problems := e.Decoder.Make(e.doc, t, e.origin)
	if e.problems = append(e.problems, problems...); len(problems) == 0 {
		e.absent = append(e.absent, pod)
	}
}

// checkPorts refuses several pods with the same port of the node.
func (e *expansion) checkPorts(pod *v1.Pod, field string, n int) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range c.Ports {
			switch {
			case port.HostPort != 0:
				e.refuse(field, fmt.Sprintf("%d pods of a node cannot have the same hostPort %d: set it to 1", n, port.HostPort))
				return
			case e.Decoder.OnlyHostNetwork && port.ContainerPort != 0:
				e.refuse(field, fmt.Sprintf("this node has no pod networks, %d pods cannot have the same port %d: set it to 1", n, port.ContainerPort))
				return
			}
		}
	}
}
