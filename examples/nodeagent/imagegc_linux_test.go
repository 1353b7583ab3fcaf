// SPDX-License-Identifier: Apache-2.0

package main

import (
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/imagegc/statfs"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// gallery is a containerd with a small disk of its own, and a registry. Images app0:1, app1:1 and
// so on each take about 2·(size+2) MiB of the disk. twin0:1 is the same image as app0:1.
type gallery struct {
	*containerdtest.Instance
	*containerdtest.Registry
	disk *statfs.Disk
}

func newGallery(t *testing.T, mib, images, size int) *gallery {
	t.Helper()
	dir := containerdtest.MountDisk(t, mib)
	instance := containerdtest.Start(t, containerdtest.Options{Parent: dir})
	var published []containerdtest.Image
	for i := range images {
		payload := strings.Repeat(crand.Text(), size<<20/26)
		for _, name := range []string{"app", "twin"} {
			published = append(published, containerdtest.Image{Name: fmt.Sprintf("%s%d:1", name, i), Files: map[string]string{"/payload": payload}})
		}
	}
	return &gallery{instance, containerdtest.StartRegistry(t, instance, published...), statfs.Path(dir)}
}

// usage returns the used percentage of the disk.
func (g *gallery) usage(t *testing.T) int {
	t.Helper()
	capacity, available, err := g.disk.ImageFS(t.Context())
	require.NoError(t, err)
	return int(100 - available*100/capacity)
}

// tags returns the tags of the images on the disk.
func (g *gallery) tags(t *testing.T) (all []string) {
	t.Helper()
	answer, err := g.Images.ListImages(t.Context(), &cri.ListImagesRequest{})
	require.NoError(t, err)
	for _, image := range answer.GetImages() {
		all = append(all, image.GetRepoTags()...)
	}
	return all
}

// mountsImages reports whether the version of containerd supports image volumes.
func (g *gallery) mountsImages() bool { return !strings.HasPrefix(g.Version, "1.") }

// job returns the manifest of a pod that ends at once. Its image is pulled if missing. mounted, if
// not empty, is the image of a volume.
func job(name, image, mounted string) string {
	volumes, mounts := "", ""
	if mounted != "" {
		volumes = fmt.Sprintf("\n  volumes: [{name: v, image: {reference: %q, pullPolicy: IfNotPresent}}]", mounted)
		mounts = ", volumeMounts: [{name: v, mountPath: /v}]"
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  restartPolicy: Never
  terminationGracePeriodSeconds: 0%s
  containers: [{name: main, image: %q, imagePullPolicy: IfNotPresent, command: [/bin/true]%s}]
`, name, volumes, image, mounts)
}

// done waits until a pod has succeeded, and removes the pod.
func (s *station) done(name string) {
	s.Helper()
	s.waitPhase(name+"-n", v1.PodSucceeded)
	s.remove(name + ".yaml")
	s.eventually(name+" is gone", func() bool { _, there := s.pods()[name+"-n"]; return !there })
}

// imageTrouble returns events about missing images or other failures of a start.
func (s *station) imageTrouble() (lines []string) {
	for _, reason := range []string{"Failed", "BackOff", "InspectFailed", "ErrImageNeverPull", "FailedMount", "FailedCreatePodSandBox"} {
		lines = append(lines, s.log.about(`"event"`, `"reason":"`+reason+`"`)...)
	}
	return lines
}

func (s *station) removedImages() int { return len(s.log.about(`"image removed"`)) }

// The agent repeatedly frees a disk full of images to below the threshold while pods start. Images
// in use stay. A dry run only logs.
func TestAFullDiskIsBroughtBack(t *testing.T) {
	slowly(t)
	const images, keepers = 14, 3
	g := newGallery(t, 320, images, 8)
	s := newStation(t, on(g.Endpoint(), g.Instance))
	collecting := func(high, low int, more ...string) {
		s.start(append([]string{
			"--image-gc-period=200ms", "--minimum-image-ttl-duration=0s",
			fmt.Sprintf("--image-gc-high-threshold=%d", high), fmt.Sprintf("--image-gc-low-threshold=%d", low),
		}, more...)...)
	}
	collecting(75, 55)
	var runs []*instance
	for i := range keepers {
		name := fmt.Sprintf("keeper%d", i)
		manifest, pids := s.service(name, forever)
		s.write(name+".yaml", strings.Replace(manifest, "localhost/busybox:1", g.Ref(fmt.Sprintf("app%d:1", i)), 1))
		pod := s.waitPhase(name+"-n", v1.PodRunning)
		runs = append(runs, &instance{name: name + "-n", file: name + ".yaml", pids: pids, pid: s.waitStarts(pids, 1)[0], container: idOf(pod)})
	}
	highest := 0
	for round := range 2 {
		for i := keepers; i < images; i++ {
			name := fmt.Sprintf("job%d-%d", round, i)
			s.write(name+".yaml", job(name, g.Ref(fmt.Sprintf("app%d:1", i)), ""))
			s.done(name)
			highest = max(highest, g.usage(t))
		}
	}
	s.eventually("the disk is below the threshold", func() bool { return g.usage(t) < 75 })
	t.Logf("%d %% at most, %d %% at the end; %d images removed", highest, g.usage(t), s.removedImages())
	require.GreaterOrEqual(t, highest, 65, "the disk must have been nearly full")
	require.GreaterOrEqual(t, s.removedImages(), images-keepers)
	require.Empty(t, s.imageTrouble())
	for _, r := range runs {
		s.checkUntouched(r)
	}

	t.Log("a dry run says what it would do, and does nothing")
	s.interrupt()
	before := g.tags(t)
	mark := len(s.log.String())
	collecting(2, 1, "--image-gc-dry-run")
	var plan string
	s.eventually("the plan is in the log", func() bool {
		for line := range strings.Lines(s.log.String()[mark:]) {
			var entry struct{ Msg, Plan string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "images would be removed" {
				plan = entry.Plan
			}
		}
		return strings.Count(plan, "\n") > len(before)
	})
	time.Sleep(time.Second) // a few more passes
	require.ElementsMatch(t, before, g.tags(t))
	require.NotContains(t, s.log.String()[mark:], `"image removed"`)
	require.Contains(t, plan, "remove "+g.Ref("app13:1"))
	require.Contains(t, plan, "localhost/pause:1")
	for i := range keepers {
		require.NotContains(t, plan, "remove "+g.Ref(fmt.Sprintf("app%d:1", i)))
	}

	t.Log("what cannot be done is said with the kubelet's words, and what is needed stays")
	s.interrupt()
	mark = len(s.log.String())
	collecting(2, 1)
	for _, reason := range []string{"FreeDiskSpaceFailed", "ImageGCFailed"} {
		s.eventually("there is an event "+reason, func() bool {
			return strings.Contains(s.log.String()[mark:], `"type":"Warning","reason":"`+reason+`"`)
		})
	}
	require.Contains(t, s.log.about("FreeDiskSpaceFailed")[0], `"node":"n"`)
	for i := range keepers {
		s.waitPhase(fmt.Sprintf("keeper%d-n", i), v1.PodRunning)
		require.Contains(t, g.tags(t), g.Ref(fmt.Sprintf("app%d:1", i)))
	}
	require.Contains(t, g.tags(t), containerdtest.PauseImage)
	require.NotContains(t, g.tags(t), g.Ref("app13:1"))
	require.Empty(t, s.imageTrouble())
}

// Pods start, with images as containers and as volumes, while the agent continuously removes all
// unused images. No start fails or waits because of a removed image.
func TestNoPodFailsBecauseItsImageWasCollected(t *testing.T) {
	t.Parallel()
	const lanes, images = 3, 4
	rounds := 4
	if os.Getenv("KEELSON_E2E") == "1" {
		rounds = 40
	}
	g := newGallery(t, 400, images, 1)
	s := newStation(t, on(g.Endpoint(), g.Instance))
	s.start("--image-gc-high-threshold=2", "--image-gc-low-threshold=1", "--minimum-image-ttl-duration=0s", "--image-gc-period=10ms")
	random := func(r *rand.Rand) string {
		return g.Ref(fmt.Sprintf("%s%d:1", []string{"app", "twin"}[r.IntN(2)], r.IntN(images)))
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(6, uint64(lane)))
			for i := range rounds {
				name, mounted := fmt.Sprintf("job%d-%d", lane, i), ""
				if g.mountsImages() && r.IntN(2) == 0 {
					mounted = random(r)
				}
				s.write(name+".yaml", job(name, random(r), mounted))
				for end := time.Now().Add(patience); s.pods()[name+"-n"].Status.Phase != v1.PodSucceeded; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(end) {
						t.Errorf("%s has not ended well", name)
						return
					}
				}
				if err := os.Remove(filepath.Join(s.manifests, name+".yaml")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	pulled := len(s.log.about(`"reason":"Pulled"`, "Successfully pulled"))
	t.Logf("%d pods, %d pulls, %d images removed", lanes*rounds, pulled, s.removedImages())
	require.Empty(t, s.imageTrouble())
	require.Greater(t, s.removedImages(), lanes*rounds/8, "images must come and go")
	require.Greater(t, pulled, lanes*rounds/8)
}
