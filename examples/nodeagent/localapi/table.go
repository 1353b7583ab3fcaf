// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// newTable returns objects as rows. include is the client's includeObject: None, Object, or the
// metadata by default.
func newTable(k *kind, objects []object, include string) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, ColumnDefinitions: k.columns, Rows: []metav1.TableRow{}}
	now := time.Now()
	for _, o := range objects {
		row := metav1.TableRow{Cells: k.row(o, now)}
		switch include {
		case string(metav1.IncludeNone):
		case string(metav1.IncludeObject):
			row.Object.Object = o
		default:
			part := meta.AsPartialObjectMetadata(o)
			part.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
			row.Object.Object = part
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// columns returns string columns. A name that begins with "+" is shown by "-o wide" only.
func columns(names ...string) (all []metav1.TableColumnDefinition) {
	for _, name := range names {
		c := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if rest, ok := strings.CutPrefix(name, "+"); ok {
			c.Name, c.Priority = rest, 1
		}
		if name == "Name" {
			c.Format = "name"
		}
		all = append(all, c)
	}
	return all
}

var (
	podColumns       = columns("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates")
	namespaceColumns = columns("Name", "Status", "Age")
	nodeColumns      = columns("Name", "Status", "Roles", "Age", "Version", "+Internal-IP", "+External-IP", "+OS-Image", "+Kernel-Version", "+Container-Runtime")
	eventColumns     = columns("Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count", "+Name")
)

const none = "<none>"

func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func podRow(o object, now time.Time) []any {
	pod := o.(*v1.Pod)
	s := summarize(pod)
	restarts := fmt.Sprint(s.restarts)
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		restarts += " (" + duration.HumanDuration(now.Sub(s.lastRestart)) + " ago)"
	}
	gates := none
	if n := len(pod.Spec.ReadinessGates); n > 0 {
		held := 0
		for _, gate := range pod.Spec.ReadinessGates {
			if podfacts.IsTrue(pod.Status.Conditions, gate.ConditionType) {
				held++
			}
		}
		gates = fmt.Sprintf("%d/%d", held, n)
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.status, restarts, age(pod.CreationTimestamp, now),
		cmp.Or(pod.Status.PodIP, none), cmp.Or(pod.Spec.NodeName, none), cmp.Or(pod.Status.NominatedNodeName, none), gates,
	}
}

func namespaceRow(o object, now time.Time) []any {
	namespace := o.(*v1.Namespace)
	return []any{namespace.Name, string(namespace.Status.Phase), age(namespace.CreationTimestamp, now)}
}

func nodeRow(o object, now time.Time) []any {
	node := o.(*v1.Node)
	status := "Unknown"
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			status = "Ready"
		} else if c.Type == v1.NodeReady && c.Status == v1.ConditionFalse {
			status = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	address := func(kind v1.NodeAddressType) string {
		for _, a := range node.Status.Addresses {
			if a.Type == kind {
				return a.Address
			}
		}
		return none
	}
	info := &node.Status.NodeInfo
	return []any{
		node.Name, status, none, age(node.CreationTimestamp, now), info.KubeletVersion, address(v1.NodeInternalIP), address(v1.NodeExternalIP),
		cmp.Or(info.OSImage, "<unknown>"), cmp.Or(info.KernelVersion, "<unknown>"), cmp.Or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

func eventRow(o object, now time.Time) []any {
	e := o.(*v1.Event)
	return []any{
		age(e.LastTimestamp, now), e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name, e.InvolvedObject.FieldPath,
		e.Source.Component, strings.TrimSpace(e.Message), age(e.FirstTimestamp, now), fmt.Sprint(e.Count), e.Name,
	}
}

// metaFields returns the field labels of all kinds. The labels of a nil object have no values.
func metaFields(o object) fields.Set {
	set := fields.Set{"metadata.name": "", "metadata.namespace": ""}
	if o != nil {
		set["metadata.name"], set["metadata.namespace"] = o.GetName(), o.GetNamespace()
	}
	return set
}

func nameFields(o object) fields.Set { return metaFields(o) }

func podFields(o object) fields.Set {
	pod, _ := o.(*v1.Pod)
	if pod == nil {
		pod = &v1.Pod{}
	}
	set := metaFields(o)
	maps.Copy(set, map[string]string{
		"spec.nodeName": pod.Spec.NodeName, "spec.restartPolicy": string(pod.Spec.RestartPolicy), "spec.schedulerName": pod.Spec.SchedulerName,
		"spec.serviceAccountName": pod.Spec.ServiceAccountName, "spec.hostNetwork": fmt.Sprint(pod.Spec.HostNetwork),
		"status.phase": string(pod.Status.Phase), "status.podIP": pod.Status.PodIP, "status.nominatedNodeName": pod.Status.NominatedNodeName,
	})
	return set
}

func eventFields(o object) fields.Set {
	e, _ := o.(*v1.Event)
	if e == nil {
		e = &v1.Event{}
	}
	set, about := metaFields(o), e.InvolvedObject
	maps.Copy(set, map[string]string{
		"involvedObject.kind": about.Kind, "involvedObject.namespace": about.Namespace, "involvedObject.name": about.Name, "involvedObject.uid": string(about.UID),
		"involvedObject.apiVersion": about.APIVersion, "involvedObject.resourceVersion": about.ResourceVersion, "involvedObject.fieldPath": about.FieldPath,
		"reason": e.Reason, "reportingComponent": e.ReportingController, "source": e.Source.Component, "type": e.Type,
	})
	return set
}
