// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// pullSecret returns the manifest of a registry Secret as kubectl creates it.
func pullSecret(t *testing.T, name, registry, user, password string) string {
	t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": user, "password": password}}})
	require.NoError(t, err)
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: default}\ntype: kubernetes.io/dockerconfigjson\ndata:\n  .dockerconfigjson: %s\n",
		name, base64.StdEncoding.EncodeToString(config))
}

// reader returns the manifest of a pod that prints a file of an image volume and keeps running.
func reader(name, reference string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  imagePullSecrets: [{name: registry}]
  volumes: [{name: tools, image: {reference: %q, pullPolicy: IfNotPresent}}]
  containers:
    - name: main
      image: localhost/busybox:1
      command: [/bin/sh, -c, "cat /tools/motto; sleep 1000"]
      volumeMounts: [{name: tools, mountPath: /tools}]
`, name, reference)
}

// output returns the output of the first instance of the pod's container.
func (s *station) output(pod string) string {
	s.Helper()
	logs, err := filepath.Glob(filepath.Join(s.root, "logs", "default_"+pod+"_*", "main", "0.log"))
	require.NoError(s, err)
	if len(logs) != 1 {
		return ""
	}
	text, err := os.ReadFile(logs[0])
	require.NoError(s, err)
	return string(text)
}

// An image volume is pulled from a private registry with the pod's imagePullSecrets. It stays while
// mounted, across agents and after the removal of its tag. If the runtime does not support image
// volumes, the pod is refused with a message.
func TestImageVolumesFromAPrivateRegistry(t *testing.T) {
	t.Parallel()
	const password = "hunter2-hunter2"
	c := containerdtest.Start(t, containerdtest.Options{})
	registry := containerdtest.StartRegistry(t, c, containerdtest.Image{Name: "team/tools:1", Files: map[string]string{"/motto": "measure twice\n"}})
	registry.Behave(containerdtest.Behaviour{Username: "robot", Password: password})
	s := newStation(t, on(c.Endpoint(), c))
	objects := filepath.Join(s.dir, "objects")
	require.NoError(t, os.Mkdir(objects, 0o755))
	flags := []string{"--objects-path", objects, "--image-gc-period=200ms", "--image-gc-high-threshold=1", "--image-gc-low-threshold=1", "--minimum-image-ttl-duration=0s"}
	tools := registry.Ref("team/tools:1")
	s.write("reader.yaml", reader("reader", tools)) // before the start: nobody but the agent knows that it needs busybox
	s.start(flags...)
	if strings.HasPrefix(c.Version, "1.") {
		pod := s.waitPhase("reader-n", v1.PodFailed)
		require.Contains(t, pod.Status.Message, "spec.volumes[0].image (this runtime mounts no images)")
		require.Empty(t, registry.Requests())
		return
	}
	s.eventually("it is said that there is no secret, and what the registry says", func() bool {
		return len(s.log.about("FailedToRetrieveImagePullSecret", "(registry)")) > 0 &&
			len(s.log.about(`"reason":"Failed"`, "authorization failed")) > 0 && len(s.log.about(`"reason":"FailedMount"`, `tools`)) > 0
	})
	anonymous := len(registry.Requests())
	require.NoError(t, os.WriteFile(filepath.Join(objects, "secret.yaml"), []byte(pullSecret(t, "registry", registry.Host+"/team", "robot", password)), 0o600))
	for end := time.Now().Add(2 * patience); s.pods()["reader-n"].Status.Phase != v1.PodRunning; time.Sleep(50 * time.Millisecond) { // after the back-off
		require.True(t, time.Now().Before(end), "the pod does not run")
	}
	s.eventually("it has read the volume", func() bool { return strings.Contains(s.output("reader-n"), "measure twice") })
	require.Greater(t, len(registry.Requests()), anonymous)
	require.NotContains(t, s.log.String(), password)

	t.Log("the image stays although its tag is gone, also after the agent was killed")
	id := imageID(t, c, tools)
	_, err := c.Ctr(t.Context(), "images", "rm", tools)
	require.NoError(t, err)
	passes := func() { time.Sleep(time.Second) }
	passes()
	require.Equal(t, id, imageID(t, c, id))
	s.kill()
	s.start(flags...)
	s.waitPhase("reader-n", v1.PodRunning)
	passes()
	require.Equal(t, id, imageID(t, c, id))

	t.Log("and goes with its pod")
	s.remove("reader.yaml")
	s.eventually("the image is gone", func() bool { return imageID(t, c, id) == "" })
}

// imageID returns the ID of an image, "" if it is missing.
func imageID(t *testing.T, c *containerdtest.Instance, reference string) string {
	t.Helper()
	answer, err := c.Images.ImageStatus(t.Context(), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: reference}})
	require.NoError(t, err)
	return answer.GetImage().GetId()
}

// The ages of images survive a restart of the agent: an image unused for long is removed right
// after the restart.
func TestAgesOfImagesSurviveARestart(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t, containerdtest.Options{Images: []containerdtest.Image{{Name: "localhost/old:1"}}})
	s := newStation(t, on(c.Endpoint(), c))
	flags := []string{"--image-gc-period=200ms", "--minimum-image-ttl-duration=1h", "--maximum-image-ttl-duration=24h"}
	s.start(flags...)
	records := filepath.Join(s.root, "images.json")
	s.eventually("there are records", func() bool { _, err := os.Stat(records); return err == nil })
	s.kill()
	id := imageID(t, c, "localhost/old:1")
	require.NotEmpty(t, id)

	// Age the image by two days.
	data, err := os.ReadFile(records)
	require.NoError(t, err)
	var content struct {
		Version int              `json:"version"`
		Images  []map[string]any `json:"images"`
	}
	require.NoError(t, json.Unmarshal(data, &content))
	found := false
	for _, image := range content.Images {
		if image["id"] == id {
			found = true
			image["firstDetected"] = time.Now().Add(-48 * time.Hour)
		}
	}
	require.True(t, found, "%s", data)
	data, err = json.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(records, data, 0o600))

	s.start(flags...)
	s.eventually("it is gone", func() bool { return imageID(t, c, id) == "" })
	s.eventually("that is said", func() bool { return len(s.log.about(`"image removed"`, "localhost/old:1", `"age"`)) == 1 })
	require.NotEmpty(t, imageID(t, c, "localhost/busybox:1"), "that has not been seen for an hour")
}
