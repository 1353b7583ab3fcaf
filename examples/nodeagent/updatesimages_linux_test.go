// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// The images of the good and of the held next version stay, while the agent removes all unused
// images. An image that cannot be pulled leaves the pod alone. The switch needs no registry.
func TestTransactionalUpdatesOnContainerd(t *testing.T) {
	t.Parallel()
	g := newGallery(t, 400, 3, 1)
	s := newStation(t, on(g.Endpoint(), g.Instance))
	s.start("--image-gc-high-threshold=2", "--image-gc-low-threshold=1", "--minimum-image-ttl-duration=0s", "--image-gc-period=50ms")
	manifest, pids := s.transactional("web", forever)
	manifest = strings.Replace(manifest, "image: localhost/busybox:1", "imagePullPolicy: Always\n      image: localhost/busybox:1", 1)
	image := func(name string) string { return strings.Replace(manifest, "localhost/busybox:1", g.Ref(name), 1) }
	held := strings.Replace(image("app1:1"), "{keelson.dev/update:", `{keelson.dev/update-hold: "true", keelson.dev/update:`, 1)
	require.NotEqual(t, image("app1:1"), held)

	s.write("web.yaml", image("app0:1"))
	first := s.waitSteady("").Good
	s.waitStarts(pids, 1)

	s.write("web.yaml", image("missing:1"))
	s.eventually("the version is blocked", func() bool {
		r := s.update().Record
		return r.Phase == updates.Staging && r.Reason == updates.EventBlocked && r.Good == first
	})
	require.Len(t, s.started(pids), 1)

	s.write("web.yaml", held)
	s.eventually("the version is staged", func() bool {
		r := s.update().Record
		return r.Phase == updates.Staged && r.Reason == updates.EventHeld
	})
	s.write("job.yaml", job("job", g.Ref("app2:1"), ""))
	s.done("job")
	s.eventually("the unused image is removed", func() bool { return len(s.log.about(`"image removed"`, "app2:1")) > 0 })
	require.Subset(t, g.tags(t), []string{g.Ref("app0:1"), g.Ref("app1:1")})
	require.Len(t, s.started(pids), 1, "the old version runs")

	g.Behave(containerdtest.Behaviour{Unavailable: 1 << 20})
	s.write("web.yaml", image("app1:1"))
	second := s.waitSteady(first).Good
	pod := s.waitPhase("web-n", v1.PodRunning)
	require.Equal(t, g.Ref("app1:1"), pod.Spec.Containers[0].Image)
	require.Equal(t, second, pod.Annotations[updates.AnnotationVersion])
	require.Len(t, s.started(pids), 2)
}
