// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/podconfig"
)

// list parses "cpu=1 memory=1Gi".
func list(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for field := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(field, "=")
		out[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

type edit = func(*v1.Pod)

func pod(name string, edits ...edit) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, "default", types.UID("uid-"+name)
	for _, e := range edits {
		e(p)
	}
	return p
}

func asks(requests string) edit {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: list(requests)}})
	}
}

func limits(amounts string) edit {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c", Resources: v1.ResourceRequirements{Limits: list(amounts)}})
	}
}

func initAsks(requests string) edit {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "i", Resources: v1.ResourceRequirements{Requests: list(requests)}})
	}
}

func sidecarAsks(requests string) edit {
	return func(p *v1.Pod) {
		initAsks(requests)(p)
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = &always
	}
}

func static(p *v1.Pod) {
	p.Annotations = map[string]string{podconfig.AnnotationSource: podconfig.SourceFile}
}

func withPriority(n int32) edit { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func demands(pods ...*v1.Pod) (all []*admission.Demand) {
	for _, p := range pods {
		all = append(all, admission.DemandOf(p))
	}
	return all
}

func usage(pods ...*v1.Pod) *admission.Usage { return admission.UsageOf(demands(pods...)...) }

func reasons(failures []admission.Failure) (all []string) {
	for _, f := range failures {
		all = append(all, f.Reason)
	}
	return all
}

func names(pods []*v1.Pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all
}
