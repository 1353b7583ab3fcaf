// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !noeviction

package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// starved is a node that gets thresholds when all of its pods have their usage.
type starved struct{ *clustered }

// newStarved starts an agent without thresholds. Its root folder is on a disk of mib MiB, if mib is
// not 0.
func newStarved(t *testing.T, b backend, mib int) starved {
	t.Helper()
	disk := ""
	if mib > 0 {
		disk = containerdtest.MountDisk(t, mib) // before the agent, which is then stopped before the disk is unmounted
	}
	c := starved{newClustered(t, b)}
	if mib > 0 {
		c.root = filepath.Join(disk, "root")
	}
	_, err := c.server.Kubectl(t.Context(), "create", "priorityclass", "important", "--value=1000")
	require.NoError(t, err)
	c.start(append(slices.Clone(c.flags), "--keep-pods", "--eviction-hard=")...)
	return c
}

// starve restarts the agent with thresholds. Its pods run on.
func (c starved) starve(flags ...string) {
	c.Helper()
	c.interrupt()
	c.start(slices.Concat(c.flags, []string{"--keep-pods=false", "--eviction-pressure-transition-period", "5s"}, flags)...)
}

// use runs a pod with a command, and waits for the end of the command.
func (c starved) use(name, command string, requests v1.ResourceList, change ...func(*v1.Pod)) {
	c.Helper()
	c.begin(name, command, requests, change...)
	c.told(name, "has its usage", func(pod *v1.Pod) bool { return isReady(*pod) })
}

// begin runs a pod with a command in an emptyDir called scratch.
func (c starved) begin(name, command string, requests v1.ResourceList, change ...func(*v1.Pod)) {
	c.Helper()
	c.bindPod(name, func(pod *v1.Pod) {
		main := &pod.Spec.Containers[0]
		main.Command = []string{"/bin/sh", "-c", "cd $KEELSON_ROOT/scratch; " + command + "; touch ready; " + forever}
		main.Resources.Requests = requests
		main.VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
		main.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{
			Command: []string{"/bin/sh", "-c", "test -e $KEELSON_ROOT/scratch/ready"},
		}}}
		pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		for _, f := range change {
			f(pod)
		}
	})
}

func important(pod *v1.Pod) { pod.Spec.PriorityClassName = "important" }
func critical(pod *v1.Pod)  { pod.Spec.PriorityClassName = "system-cluster-critical" }

func requests(name v1.ResourceName, amount string) v1.ResourceList {
	return v1.ResourceList{name: resource.MustParse(amount)}
}

// evicted waits until the API server has the status of an evicted pod.
func (c starved) evicted(name string, message string) *v1.Pod {
	c.Helper()
	pod := c.told(name, "is evicted", func(pod *v1.Pod) bool { return pod.Status.Reason == "Evicted" })
	require.Equal(c, v1.PodFailed, pod.Status.Phase)
	require.Regexp(c, message, pod.Status.Message)
	return pod
}

// disrupted reports whether a pod has the condition of a pod that was evicted for the node's sake.
func disrupted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
	})
}

var evictedPod = regexp.MustCompile(`"pod is evicted".*"pod":"default/([a-z]+)"`)

// order returns the pods in the order of their evictions.
func (c starved) order() (names []string) {
	for _, found := range evictedPod.FindAllStringSubmatch(c.log.String(), -1) {
		names = append(names, found[1])
	}
	return names
}

// condition waits until a condition of the node has a status.
func (c starved) condition(kind v1.NodeConditionType, status v1.ConditionStatus) {
	c.Helper()
	c.eventually(fmt.Sprintf("%s is %s", kind, status), func() bool {
		node, err := c.core.Nodes().Get(c.Context(), c.name, metav1.GetOptions{})
		require.NoError(c, err)
		return slices.ContainsFunc(node.Status.Conditions, func(is v1.NodeCondition) bool { return is.Type == kind && is.Status == status })
	})
}

// refused reports that a new pod is refused.
func (c starved) refused(name string, message string) {
	c.Helper()
	c.bind(name, forever)
	pod := c.told(name, "is refused", func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodFailed })
	require.Equal(c, "Evicted", pod.Status.Reason)
	require.Equal(c, message, pod.Status.Message)
}

// metric returns the evictions of /metrics for a signal.
func (c starved) metric(signal string) string {
	c.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", c.port))
	require.NoError(c, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	_, rest, _ := strings.Cut(string(text), fmt.Sprintf("kubelet_evictions{eviction_signal=%q} ", signal))
	count, _, _ := strings.Cut(rest, "\n")
	return count
}

// onBoth runs a test on the process backend and on containerd.
func onBoth(t *testing.T, test func(t *testing.T, b backend)) {
	for _, name := range []string{"process", "containerd"} {
		t.Run(name, func(t *testing.T) { test(t, backends[name]) })
	}
}

// A disk that fills up ends the pod with the largest excess, and no other: the others stay, the node has disk pressure
// for a while, and new pods are refused meanwhile.
func TestEvictionForDiskSpace(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend) {
		c := newStarved(t, b, 64)
		write := func(mib int) string { return fmt.Sprintf("dd if=/dev/zero of=data bs=1M count=%d", mib) }
		storage := func(amount string) v1.ResourceList { return requests(v1.ResourceEphemeralStorage, amount) }
		c.use("critical", write(9), nil, critical)
		c.use("important", write(9), nil, important)
		c.use("modest", write(9), storage("20Mi"))
		c.use("small", write(2), storage("1Mi"))
		c.use("hog", write(8), storage("1Mi"))

		c.starve("--eviction-hard", "nodefs.available<35%")
		hog := c.evicted("hog", `^The node was low on resource: ephemeral-storage. Threshold quantity: \d+, available: [^ ]+. $`)
		require.True(t, disrupted(hog))
		c.condition(v1.NodeDiskPressure, v1.ConditionTrue)
		c.refused("late", "Pod was rejected: The node had condition: [DiskPressure]. ")
		require.Equal(t, "1", c.metric("nodefs.available"))
		c.condition(v1.NodeDiskPressure, v1.ConditionFalse)
		for _, name := range []string{"critical", "important", "modest", "small"} {
			c.told(name, "runs on", running)
		}
		require.Equal(t, []string{"hog"}, c.order())
		c.eventually("the events are there", func() bool {
			all, err := c.events(t)
			return err == nil && slices.Contains(all, "hog Evicted") && slices.Contains(all, "n EvictionThresholdMet") &&
				slices.Contains(all, "n NodeHasDiskPressure") && slices.Contains(all, "n NodeHasNoDiskPressure")
		})
	})
}

// Small files take inodes only.
func TestEvictionForInodes(t *testing.T) {
	c := newStarved(t, backends["process"], 64)
	touch := func(n int) string { return fmt.Sprintf("i=0; while [ $i -lt %d ]; do : > f$i; i=$((i+1)); done", n) }
	c.use("small", touch(100), nil)
	c.use("important", touch(9000), nil, important)
	c.use("hog", touch(3000), nil)
	c.starve("--eviction-hard", "nodefs.inodesFree<35%")
	hog := c.evicted("hog", `^The node was low on resource: inodes. Threshold quantity: \d+, available: \d+. $`)
	require.True(t, disrupted(hog))
	c.condition(v1.NodeDiskPressure, v1.ConditionTrue)
	c.condition(v1.NodeDiskPressure, v1.ConditionFalse)
	require.Equal(t, []string{"hog"}, c.order())
}

// The machine of the test has other processes, too: half of the hog's are enough for the threshold.
func TestEvictionForProcessIDs(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend) {
		c := newStarved(t, b, 0)
		fork := func(n int) string {
			return fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 1000 & i=$((i+1)); done", n)
		}
		c.use("critical", fork(30), nil, critical)
		c.use("important", fork(900), nil, important)
		c.use("hog", fork(800), nil)
		c.use("small", fork(5), nil)
		most, used := host.Machine{}.ProcessIDs()
		c.starve("--eviction-hard", fmt.Sprintf("pid.available<%d", most-used+400))
		hog := c.evicted("hog", `^The node was low on resource: pids. Threshold quantity: \d+, available: \d+. $`)
		require.True(t, disrupted(hog))
		c.condition(v1.NodePIDPressure, v1.ConditionTrue)
		c.refused("late", "Pod was rejected: The node had condition: [PIDPressure]. ")
		c.condition(v1.NodePIDPressure, v1.ConditionFalse)
		require.Equal(t, []string{"hog"}, c.order())
		c.told("important", "runs on", running)
	})
}

// The threshold is always met: the pods go one by one in the kubelet's order, until only a critical pod is left.
func TestEvictionForMemory(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend) {
		c := newStarved(t, b, 0)
		hold := func(mib int) string { return fmt.Sprintf("x=$(head -c %d /dev/zero | tr '\\0' x)", mib<<20) }
		memory := func(amount string) v1.ResourceList { return requests(v1.ResourceMemory, amount) }
		c.use("critical", hold(40), memory("1Mi"), critical)
		c.use("important", hold(60), memory("1Mi"), important)
		c.use("modest", hold(30), memory("200Mi"))
		c.use("small", hold(20), memory("1Mi"))
		c.use("hog", hold(40), memory("1Mi"))
		c.starve("--eviction-hard", "memory.available<99.99%")
		c.condition(v1.NodeMemoryPressure, v1.ConditionTrue)
		c.refused("late", "Pod was rejected: The node had condition: [MemoryPressure]. ")
		hog := c.evicted("hog", `^The node was low on resource: memory. Threshold quantity: .*, available: [^ ]+. Container main was using [^ ]+, request is 1Mi, has larger consumption of memory. $`)
		require.True(t, disrupted(hog))
		c.evicted("modest", `available: [^ ]+. $`)
		require.Equal(t, []string{"hog", "small", "important", "modest"}, c.order())
		c.eventually("the agent says that no other pod can go", func() bool { return len(c.log.about("no pod can be evicted")) == 1 })
		c.told("critical", "runs on", running)
		require.Equal(t, "4", c.metric("memory.available"))
	})
}

// Limits of local storage are enforced without any threshold.
func TestEvictionForLimits(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend) {
		c := starved{newClustered(t, b)}
		c.start(append(c.flags, "--eviction-hard=")...)
		const write = "dd if=/dev/zero of=data bs=1M count=4"
		limit := func(amount string) func(*v1.Pod) {
			return func(pod *v1.Pod) { pod.Spec.Volumes[0].EmptyDir.SizeLimit = new(resource.MustParse(amount)) }
		}
		wants := map[string]string{"volume": `^Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". $`}
		c.begin("fits", write, nil, limit("8Mi"))
		c.begin("volume", write, nil, limit("1Mi"))
		if b.flags(t) != nil { // processes have no limits
			wants["logs"] = `^Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. $`
			c.begin("logs", "head -c 3000000 /dev/zero | tr '\\0' '\\n'", nil, func(pod *v1.Pod) {
				pod.Spec.Containers[0].Resources.Limits = requests(v1.ResourceEphemeralStorage, "1Mi")
			})
		}
		time.Sleep(30 * time.Second) // a folder that was measured before it was full is measured again a minute later
		for _, name := range slices.Sorted(maps.Keys(wants)) {
			require.False(t, disrupted(c.evicted(name, wants[name])))
		}
		require.Equal(t, "1", c.metric("emptydirfs.limit"))
		c.told("fits", "runs on", running)
		require.ElementsMatch(t, slices.Collect(maps.Keys(wants)), c.order())
	})
}
