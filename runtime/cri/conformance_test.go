// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/runtimetest"
)

// conformance runs the suite with pods adjusted by pod.
func conformance(t *testing.T, pod func(*v1.Pod), skip map[string]string) {
	c := containerd.Get(t)
	registry := containerdtest.StartRegistry(t, c, containerdtest.Image{Name: "app:1", Files: map[string]string{"/own": rand.Text()}})
	conformanceOn(t, c.Endpoint(), registry, pod, skip)
}

// conformanceOn runs the suite on the container runtime with the given endpoint, which may pull from
// the registry.
func conformanceOn(t *testing.T, endpoint string, registry *containerdtest.Registry, pod func(*v1.Pod), skip map[string]string) {
	refused := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "main", Image: containerdtest.BusyboxImage, VolumeDevices: []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/sdz"}},
	}}}}
	registry.Behave(containerdtest.Behaviour{Username: "user", Password: password})
	images := runtimetest.Images{
		Present: containerdtest.BusyboxImage, Absent: registry.Ref("absent:1"), Pullable: registry.Ref("app:1"),
		Auth: &runtime.ImageAuth{Username: "user", Password: password},
	}
	runtimetest.Run(t, runtimetest.Harness{
		Open: func(tb testing.TB) *runtimetest.Subject {
			casetest.SkipUnlessChosen(tb)
			root := tb.TempDir()
			// Closed when the suite has cleaned up, so from here.
			var opened []cri.Backend
			tb.Cleanup(func() {
				for _, rt := range opened {
					assert.NoError(tb, rt.Close())
				}
			})
			open := func() runtime.Runtime {
				rt, err := cri.Dial(context.Background(), endpoint, cri.Options{Root: root})
				require.NoError(tb, err)
				opened = append(opened, rt)
				return rt
			}
			return &runtimetest.Subject{
				Runtime: open(),
				Reopen: func(_ testing.TB, meanwhile func()) runtime.Runtime {
					meanwhile()
					return open()
				},
				Container: func(b runtimetest.Behaviour, spec *runtime.ContainerSpec) {
					spec.Image, spec.Command = containerdtest.BusyboxImage, runtimetest.Shell(b)
				},
				Logs:   filepath.Join(root, "logs"),
				Images: images,
			}
		},
		Patience: 30 * time.Second,
		Pod:      pod,
		Refused:  refused,
		Skip:     skip,
	})
}

func TestConformanceOnTheHostNetwork(t *testing.T) {
	conformance(t, func(pod *v1.Pod) { pod.Spec.HostNetwork = true }, nil)
}

func TestConformanceWithPodNetworks(t *testing.T) {
	skip := map[string]string{}
	for _, name := range []string{
		"UpdateIsReported", "UpdateTakesLimitsAway", "UpdateNeedsARunningContainer", "MemoryUsageIsTold",
		"ImageIDs", "PullOfAnAbsentImage", "PullOfAnImage", "ExecCutsOutput", "ExecHasTheContainersEnv", "LogOfLongLines",
	} {
		skip[name] = "the network makes no difference"
	}
	conformance(t, func(*v1.Pod) {}, skip)
}

// onCRIO runs the suite on CRI-O.
func onCRIO(t *testing.T, pod func(*v1.Pod), skip map[string]string) {
	registry := containerdtest.StartRegistry(t, nil, containerdtest.Image{Name: "app:1", Files: map[string]string{"/own": rand.Text()}})
	c := containerdtest.StartCRIO(t, registry)
	conformanceOn(t, c.Endpoint(), registry, pod, skip)
}

// crioDiffers are the rules that CRI-O breaks, each at a call of its own: the backend passes on what
// CRI-O 1.35.2 answers. A node does without these rules: it names a log path, stops no container that
// has exited, reports a failed resize, and takes a program that is missing for a failed creation.
func crioDiffers() map[string]string {
	return map[string]string{
		"UpdateTakesLimitsAway":    "CRI-O refuses a memory limit of -1, which takes a limit away",
		"FailedStartEndsIt":        "CRI-O finds the program already when it creates the container, and fails then",
		"NoLogPath":                "CRI-O chooses a path for a container without a log path",
		"StopTwice":                "CRI-O changes the time of the exit at each stop",
		"StopOfExitedKeepsTheExit": "CRI-O changes the time of the exit at each stop",
		"StreamsThatCannotBe":      "CRI-O offers a stream to the ports of a sandbox that was removed; the stream fails then",
		"ExecCannotRun":            "CRI-O and runc run a command in a container that was created and not started",
	}
}

func TestConformanceOfCRIOOnTheHostNetwork(t *testing.T) {
	onCRIO(t, func(pod *v1.Pod) { pod.Spec.HostNetwork = true }, crioDiffers())
}

func TestConformanceOfCRIOWithPodNetworks(t *testing.T) {
	onCRIO(t, func(*v1.Pod) {}, crioDiffers())
}
