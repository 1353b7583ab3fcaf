// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

func TestContainerAnnotations(t *testing.T) {
	deletion, termination := int64(5), int64(30)
	pod := podNamed("ns", "web", "u-1")
	pod.DeletionGracePeriodSeconds = &deletion
	pod.Spec.TerminationGracePeriodSeconds = &termination
	c := &v1.Container{
		Name:                     "main",
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
		Lifecycle:                &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"drain", "--now"}}}},
		Ports:                    []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
	}
	got, err := containerAnnotations(pod, c, ContainerInput{RestartCount: 3, Hash: "5f", RestartDelay: 20 * time.Second})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"io.kubernetes.container.hash":                     "5f",
		"io.kubernetes.container.restartCount":             "3",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
		"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["drain","--now"]}}`,
		"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":8080,"protocol":"TCP"}]`,
		"io.kubernetes.pod.deletionGracePeriod":            "5",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"keelson.dev/restart-delay":                        "20s",
	}, got)

	got, err = containerAnnotations(podNamed("ns", "web", "u-1"), &v1.Container{Name: "main", Lifecycle: &v1.Lifecycle{}}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"io.kubernetes.container.hash":                     "",
		"io.kubernetes.container.restartCount":             "0",
		"io.kubernetes.container.terminationMessagePath":   "",
		"io.kubernetes.container.terminationMessagePolicy": "",
		"keelson.dev/restart-delay":                        "0s",
	}, got)
}

func TestContainerAnnotationsRefuseWhatHasNoJSON(t *testing.T) {
	c := &v1.Container{Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
		HTTPGet: &v1.HTTPGetAction{Port: intstr.IntOrString{Type: 7}},
	}}}
	_, err := containerAnnotations(podNamed("ns", "web", "u"), c, ContainerInput{})
	require.ErrorContains(t, err, "lifecycle.preStop: ")
}

// randomKillable returns a pod with all fields that matter for killing its container. Each field is
// present or missing at random.
func randomKillable(r *rand.Rand) (*v1.Pod, *v1.Container) {
	maybe := func() *int64 {
		if r.IntN(3) == 0 {
			return nil
		}
		n := r.Int64N(1 << (1 + r.IntN(40)))
		return &n
	}
	pod := podNamed("ns", "web", "u-1")
	pod.DeletionGracePeriodSeconds = maybe()
	pod.Spec.TerminationGracePeriodSeconds = maybe()
	c := v1.Container{
		Name:                     "main",
		TerminationMessagePath:   []string{"", "/dev/termination-log", "/tmp/\"msg\""}[r.IntN(3)],
		TerminationMessagePolicy: []v1.TerminationMessagePolicy{"", v1.TerminationMessageReadFile}[r.IntN(2)],
	}
	switch r.IntN(5) {
	case 0:
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 4}}}
	case 1:
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/bye", Port: intstr.FromString("http")}}}
	case 2:
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "echo <\"é\">"}}}}
	case 3:
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
	}
	for i := range r.IntN(3) {
		c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: int32(80 + i), HostIP: "::1", Protocol: v1.ProtocolUDP})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod, &pod.Spec.Containers[0]
}

func TestRestorePodIsTheInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2_000 {
		pod, c := randomKillable(r)
		annotations, err := containerAnnotations(pod, c, ContainerInput{RestartCount: 1})
		require.NoError(t, err)
		gotPod, gotContainer := restorePod(
			&PodStatus{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
			&ContainerStatus{Name: c.Name, Annotations: annotations},
		)
		require.Equal(t, pod, gotPod)
		require.Same(t, &gotPod.Spec.Containers[0], gotContainer)
		for _, why := range []KillReason{killPodTerminating, killLivenessProbe} {
			require.Equal(t, gracePeriod(pod, c, why), gracePeriod(gotPod, gotContainer, why))
		}
	}
}

func TestRestorePodReadsDamageAsNothing(t *testing.T) {
	st := &PodStatus{UID: "u-1", Namespace: "ns", Name: "web"}
	bare := podNamed("ns", "web", "u-1")
	bare.Spec.Containers = []v1.Container{{Name: "main"}}
	for name, annotations := range map[string]map[string]string{
		"no annotations": nil,
		"empty": {
			containermeta.AnnotationPreStopHandler: "", containermeta.AnnotationPorts: "", containermeta.AnnotationDeletionGrace: "", containermeta.AnnotationTerminationGrace: "",
		},
		"not JSON, not numbers": {
			containermeta.AnnotationPreStopHandler: "{", containermeta.AnnotationPorts: "[{", containermeta.AnnotationDeletionGrace: "soon", containermeta.AnnotationTerminationGrace: "30s",
		},
		"wrong types": {
			containermeta.AnnotationPreStopHandler: "[]", containermeta.AnnotationPorts: `[{"name":"ok"},{"containerPort":"x"}]`, containermeta.AnnotationDeletionGrace: "1.5",
		},
		"null and out of range": {
			containermeta.AnnotationPreStopHandler: "null", containermeta.AnnotationPorts: "null", containermeta.AnnotationDeletionGrace: "-1", containermeta.AnnotationTerminationGrace: "99999999999999999999",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, c := restorePod(st, &ContainerStatus{Name: "main", Annotations: annotations})
			assert.Equal(t, bare, pod)
			assert.Equal(t, "main", c.Name)
		})
	}
}

func FuzzRestorePod(f *testing.F) {
	f.Add(`{"exec":{"command":["a"]}}`, `[{"containerPort":80}]`, "30", "5")
	f.Add("null", "null", "-1", "x")
	f.Add(`{"httpGet":{"port":{}}}`, `{}`, "", "1e3")
	f.Fuzz(func(t *testing.T, preStop, ports, termination, deletion string) {
		pod, c := restorePod(&PodStatus{Name: "web"}, &ContainerStatus{Name: "main", Annotations: map[string]string{
			containermeta.AnnotationPreStopHandler: preStop, containermeta.AnnotationPorts: ports,
			containermeta.AnnotationTerminationGrace: termination, containermeta.AnnotationDeletionGrace: deletion,
		}})
		require.Equal(t, "main", c.Name)
		// Reading the written result again gives the same result.
		written, err := containerAnnotations(pod, c, ContainerInput{})
		require.NoError(t, err)
		pod, c = restorePod(&PodStatus{Name: "web"}, &ContainerStatus{Name: "main", Annotations: written})
		again, err := containerAnnotations(pod, c, ContainerInput{})
		require.NoError(t, err)
		require.Equal(t, written, again)
	})
}
