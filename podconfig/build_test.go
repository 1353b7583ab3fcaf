// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// elsewhere is a time zone other than UTC.
var elsewhere = time.FixedZone("elsewhere", 5400)

type podOption func(*v1.Pod)

// pod returns a pod with the name and UID in namespace ns.
func pod(name string, uid types.UID, options ...podOption) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/app:1"}}},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func image(ref string) podOption {
	return func(p *v1.Pod) { p.Spec.Containers[0].Image = ref }
}

func label(key, value string) podOption {
	return func(p *v1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func annotation(key, value string) podOption {
	return func(p *v1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func phase(ph v1.PodPhase) podOption {
	return func(p *v1.Pod) { p.Status.Phase = ph }
}

func version(rv string) podOption {
	return func(p *v1.Pod) { p.ResourceVersion = rv }
}

func deleting(grace int64) podOption {
	return func(p *v1.Pod) {
		at := metav1.Unix(1_700_000_000, 0)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

func newStore(t testing.TB, o podconfig.StoreOptions) *podconfig.Store {
	t.Helper()
	s, err := podconfig.NewStore(o)
	require.NoError(t, err)
	return s
}

func merge(t testing.TB, s *podconfig.Store, source string, c podconfig.Change) []podconfig.Update {
	t.Helper()
	updates, err := s.Merge(t.Context(), source, c)
	require.NoError(t, err)
	return updates
}

// brief formats updates as "ADD[a/1 b/2] RECONCILE[c/3]", with a + after a Synced update.
func brief(updates []podconfig.Update) string {
	text := ""
	for _, u := range updates {
		if text != "" {
			text += " "
		}
		text += u.Op.String() + "["
		for i, p := range u.Pods {
			if i > 0 {
				text += " "
			}
			text += fmt.Sprintf("%s/%s", p.Name, p.UID)
		}
		text += "]"
		if u.Synced {
			text += "+"
		}
	}
	return text
}
