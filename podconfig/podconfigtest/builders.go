// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// PodOption edits a pod under construction.
type PodOption func(*v1.Pod)

// Pod returns a new pod with the name and UID in namespace "ns", with a single container.
func Pod(name string, uid types.UID, options ...PodOption) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/app:1"}}},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Image sets the container's image.
func Image(ref string) PodOption {
	return func(p *v1.Pod) { p.Spec.Containers[0].Image = ref }
}

// Label sets a label.
func Label(key, value string) PodOption {
	return func(p *v1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

// Annotation sets an annotation.
func Annotation(key, value string) PodOption {
	return func(p *v1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

// Phase sets the phase in the status.
func Phase(phase v1.PodPhase) PodOption {
	return func(p *v1.Pod) { p.Status.Phase = phase }
}

// Version sets the resourceVersion.
func Version(version string) PodOption {
	return func(p *v1.Pod) { p.ResourceVersion = version }
}

// Deleting sets a constant DeletionTimestamp and the grace period in seconds.
func Deleting(grace int64) PodOption {
	return func(p *v1.Pod) {
		at := metav1.Unix(1_700_000_000, 0)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

// Edited applies a function.
func Edited(edit func(*v1.Pod)) PodOption { return edit }

// Brief formats updates for Step.Want: "REMOVE[a/1] ADD[b/2 c/3]+" is a removal of the pod a with
// UID 1 and then an addition of two pods with Synced set.
func Brief(updates []podconfig.Update) string {
	parts := make([]string, 0, len(updates))
	for _, u := range updates {
		names := make([]string, 0, len(u.Pods))
		for _, p := range u.Pods {
			names = append(names, nameAndUID(p))
		}
		part := u.Op.String() + "[" + strings.Join(names, " ") + "]"
		if u.Synced {
			part += "+"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func nameAndUID(p *v1.Pod) string {
	if p == nil {
		return "nil"
	}
	return p.Name + "/" + string(p.UID)
}
