// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/internal/apiservertest"
)

// clustered is a station with an agent that joins a real API server with the permissions of a node.
type clustered struct {
	*station
	server *apiservertest.Server
	api    corev1.PodInterface
	core   *corev1.CoreV1Client
	name   string
	flags  []string
}

func newClustered(t *testing.T, b backend) *clustered {
	t.Helper()
	c := newClusteredNode(t, b, "n", apiservertest.Options{})
	c.flags = append(c.flags, "--port", "0")
	return c
}

func newClusteredNode(t *testing.T, b backend, name string, opts apiservertest.Options) *clustered {
	t.Helper()
	server := apiservertest.Start(t, opts)
	s := newStation(t, b)
	_, err := server.CreateNode(t.Context(), name)
	require.NoError(t, err)
	kubeconfig, err := server.WriteKubeconfig(server.NodeConfig(name))
	require.NoError(t, err)
	core, err := server.Core()
	require.NoError(t, err)
	return &clustered{
		station: s, server: server, api: core.Pods(v1.NamespaceDefault), core: core, name: name,
		flags: []string{"--kubeconfig", kubeconfig, "--hostname-override", name},
	}
}

// bind creates a pod that is bound to the node and runs a command of the host.
func (c *clustered) bind(name, command string) *v1.Pod {
	c.Helper()
	return c.bindPod(name, func(pod *v1.Pod) { pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", command} })
}

// bindPod creates a pod that is bound to the node, after a change of the pod.
func (c *clustered) bindPod(name string, change func(*v1.Pod)) *v1.Pod {
	c.Helper()
	grace := int64(2)
	pod := apiservertest.Pod(v1.NamespaceDefault, name, c.name)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "localhost/busybox:1"}}
	change(pod)
	made, err := c.api.Create(c.Context(), pod, metav1.CreateOptions{})
	require.NoError(c, err)
	return made
}

// told waits until the pod on the API server satisfies is.
func (c *clustered) told(name, what string, is func(*v1.Pod) bool) *v1.Pod {
	c.Helper()
	var pod *v1.Pod
	c.eventually(name+" "+what+" on the API server", func() bool {
		var err error
		pod, err = c.api.Get(c.Context(), name, metav1.GetOptions{})
		return err == nil && is(pod)
	})
	return pod
}

func (c *clustered) gone(name string) {
	c.Helper()
	c.eventually(name+" is gone from the API server", func() bool {
		_, err := c.api.Get(c.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// events returns the events about pods as "name reason".
func (c *clustered) events(t *testing.T) (all []string, err error) {
	list, err := c.core.Events(v1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range list.Items {
		all = append(all, e.InvolvedObject.Name+" "+e.Reason)
	}
	return all, nil
}

func running(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning }

func TestOnAnAPIServer(t *testing.T) {
	c := newClustered(t, backends["process"])
	manifest, staticPIDs := c.service("static", forever)
	c.write("static.yaml", manifest)
	c.start(c.flags...)

	c.Log("bound pods run, and what becomes of them is told")
	pids := c.dir + "/web.pids"
	c.bind("web", "echo $$$$ >> "+pids+"; "+forever)
	c.bind("job", "exit 3")
	c.waitStarts(pids, 1)
	web := c.told("web", "runs", running)
	require.True(t, web.Status.ContainerStatuses[0].Ready)
	require.NotEmpty(t, web.Status.PodIP)
	c.told("job", "has failed often", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})

	c.eventually("its events are there", func() bool {
		list, err := c.events(t)
		return err == nil && slices.Contains(list, "web Started")
	})

	c.Log("a static pod has a mirror there, which shows how it is and comes back when it is deleted")
	mirror := c.told("static-n", "is mirrored and runs", running)
	require.Contains(t, mirror.Annotations, v1.MirrorPodAnnotationKey)
	require.NoError(t, c.api.Delete(t.Context(), "static-n", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	c.told("static-n", "is back", func(p *v1.Pod) bool { return p.UID != mirror.UID && running(p) })
	require.Len(t, c.started(staticPIDs), 1, "the pod itself never noticed")

	c.Log("a pod that is deleted is stopped first")
	pid := c.started(pids)[0]
	require.NoError(t, c.api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	c.gone("web")
	require.False(t, alive(pid))

	c.Log("a manifest that is removed takes its mirror along")
	c.remove("static.yaml")
	c.gone("static-n")
}

// A pod gets ConfigMaps, Secrets and tokens from the server with the permissions of a node. Changes
// reach the pod at once.
func TestObjectsOfAnAPIServer(t *testing.T) {
	c := newClustered(t, backends["process"])
	meta := metav1.ObjectMeta{Name: "web"}
	_, err := c.core.ConfigMaps(v1.NamespaceDefault).Create(t.Context(), &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"sky": "blue"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.core.Secrets(v1.NamespaceDefault).Create(t.Context(), &v1.Secret{ObjectMeta: meta, StringData: map[string]string{"code": "hunter2"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.core.ServiceAccounts(v1.NamespaceDefault).Create(t.Context(), &v1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.start(c.flags...)

	out := c.dir + "/out"
	pod := apiservertest.Pod(v1.NamespaceDefault, "web", "n")
	pod.Spec.ServiceAccountName = "web"
	pod.Spec.Volumes = []v1.Volume{{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "web"}}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "web"}}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	}}}}}
	pod.Spec.Containers = []v1.Container{{
		Name: "main", Image: "localhost/busybox:1", VolumeMounts: []v1.VolumeMount{{Name: "all", MountPath: "/all"}},
		Command: []string{"/bin/sh", "-c", "while sleep 0.05; do echo $(cat all/sky) $(cat all/code) $(cut -c1-3 all/token) > all.txt; cp all.txt " + out + "; done"},
	}}
	_, err = c.api.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	says := func(want string) func() bool {
		return func() bool { text, _ := os.ReadFile(out); return string(text) == want }
	}
	c.eventually("it sees them", says("blue hunter2 eyJ\n"))
	_, err = c.core.ConfigMaps(v1.NamespaceDefault).Update(t.Context(), &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"sky": "grey"}}, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.eventually("it sees the change", says("grey hunter2 eyJ\n"))
	require.NotContains(t, c.log.String(), "hunter2")
}

// Containers get the variables of Services with the permissions of a node, also after a start of
// the node without the API server.
func TestServicesOfAnAPIServer(t *testing.T) {
	c := newClustered(t, backends["process"])
	made, err := c.core.Services(v1.NamespaceDefault).Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 5432}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var api *v1.Service
	c.eventually("the API server has a Service of its own", func() bool {
		api, err = c.core.Services(v1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err == nil
	})
	c.start(c.flags...)
	out := c.dir + "/out"
	c.bind("web", "echo $$$$ $MY_DB_PORT $KUBERNETES_SERVICE_HOST >> "+out+"; "+forever)
	says := func(n int) func() bool {
		want := fmt.Sprintf(" tcp://%s:5432 %s\n", made.Spec.ClusterIP, api.Spec.ClusterIP)
		return func() bool { text, _ := os.ReadFile(out); return strings.Count(string(text), want) == n }
	}
	c.eventually("it has them", says(1))
	time.Sleep(1500 * time.Millisecond) // the checkpoint is written, and the Services
	require.NoError(t, c.server.Kill())
	c.interrupt()
	c.start(c.flags...)
	c.eventually("it has them without the API server", says(2))
}

// An administrator advertises an extended resource without a device plug-in. The node makes the
// resource allocatable and counts the pods that have it. An amount of a node that had the name before
// is 0 at the first start.
func TestResourcesOfAnAdministrator(t *testing.T) {
	c := newClustered(t, backends["process"])
	const dongle = "example.com/dongle"
	advertise := func(amount string) {
		patch := fmt.Sprintf(`{"status":{"capacity":{%q:%q}}}`, dongle, amount)
		_, err := c.core.Nodes().Patch(t.Context(), c.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	amounts := func(want string) {
		c.Helper()
		c.eventually("the Node has dongles: "+want, func() bool {
			node, err := c.core.Nodes().Get(t.Context(), c.name, metav1.GetOptions{})
			require.NoError(t, err)
			free, all := node.Status.Allocatable[dongle], node.Status.Capacity[dongle]
			return free.String()+"/"+all.String() == want
		})
	}
	bind := func(name string) {
		c.bindPod(name, func(pod *v1.Pod) {
			pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", forever}
			one := v1.ResourceList{dongle: resource.MustParse("1")}
			pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: one, Requests: one}
		})
	}
	c.flags = append(c.flags, "--lenient") // processes have no limits
	advertise("5")
	c.start(c.flags...)
	amounts("0/0")
	advertise("1")
	c.interrupt()
	c.start(c.flags...) // reads the Node now, and not within a minute
	amounts("1/1")
	bind("a")
	c.told("a", "runs", running)
	bind("b")
	c.told("b", "is refused", func(p *v1.Pod) bool { return p.Status.Reason == "OutOf"+dongle })
}

func TestTheAPIServerIsAway(t *testing.T) {
	c := newClustered(t, backends["process"])
	c.start(c.flags...)
	pids := c.dir + "/web.pids"
	c.bind("web", "echo $$$$ >> "+pids+"; "+forever)
	c.told("web", "runs", running)
	time.Sleep(1500 * time.Millisecond) // the checkpoint is written

	c.Log("without it pods go on, and crash, and are restarted")
	require.NoError(t, c.server.Kill())
	first := c.started(pids)[0]
	require.NoError(t, syscall.Kill(-first, syscall.SIGKILL))
	c.waitStarts(pids, 2)

	c.Log("an agent that starts without it runs what it ran")
	c.interrupt()
	c.start(c.flags...)
	c.waitStarts(pids, 3)

	c.Log("when it is back it is told how things are, and what was done meanwhile is done")
	require.NoError(t, c.server.Restart(t.Context()))
	c.told("web", "has been restarted", func(p *v1.Pod) bool {
		return running(p) && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
	c.bind("late", forever)
	c.told("late", "runs", running)
	require.NoError(t, c.api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	c.gone("web")
}
