// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// onCRIO starts an agent on a CRI-O, with a server that everybody may use, whose port is returned.
func onCRIO(t *testing.T) (*station, *containerdtest.CRIO, int) {
	c := containerdtest.StartCRIO(t)
	port := testport.Free(t)
	b := backends["containerd-hostnet"]
	b.flags = func(*testing.T) []string {
		return []string{"--container-runtime-endpoint", c.Endpoint(), "--keep-pods=false", keepImages, "--port", strconv.Itoa(port), "--anonymous-auth", "--authorization-mode", "AlwaysAllow"}
	}
	s := newStation(t, b)
	s.root = filepath.Join(c.Shared, "root")
	s.start()
	return s, c, port
}

// left returns the sandboxes, the containers and the folders of pods.
func left(s *station, c *containerdtest.CRIO) (all []string) {
	s.Helper()
	sandboxes, err := c.Runtime.ListPodSandbox(s.Context(), &cri.ListPodSandboxRequest{})
	require.NoError(s, err)
	for _, x := range sandboxes.Items {
		all = append(all, "sandbox "+x.Metadata.Name)
	}
	containers, err := c.Runtime.ListContainers(s.Context(), &cri.ListContainersRequest{})
	require.NoError(s, err)
	for _, x := range containers.Containers {
		all = append(all, "container "+x.Metadata.Name)
	}
	for _, pattern := range []string{"logs/*", "pods/*"} {
		paths, err := filepath.Glob(filepath.Join(s.root, pattern))
		require.NoError(s, err)
		all = append(all, paths...)
	}
	return all
}

// Pods run on CRI-O as on containerd: restarts, probes, volumes, logs, commands, a restart of the agent
// under its pods, and nothing is left of removed pods.
func TestPodsOnCRIO(t *testing.T) {
	s, c, port := onCRIO(t)
	web, webPIDs := s.service("web", "echo from $$$$; while true; do sleep 1; done")
	s.write("web.yaml", web)
	s.write("volumes.yaml", `apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {colour: blue}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}, {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]
  initContainers:
    - {name: first, image: "localhost/busybox:1", command: [sh, -c, "echo written > /v/file"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
    - name: main
      image: localhost/busybox:1
      command: [sh, -c, "cat /v/file /about/labels; sleep 1000"]
      volumeMounts: [{name: v, mountPath: /v, readOnly: true}, {name: about, mountPath: /about}]
      readinessProbe: {exec: {command: [test, -f, /v/file]}, periodSeconds: 1}
`)
	s.write("sick.yaml", `apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: localhost/busybox:1
      command: [sh, -c, "sleep 1000"]
      livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 2}
`)
	s.write("done.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: done}\nspec:\n  restartPolicy: Never\n  containers: [{name: main, image: \"localhost/busybox:1\", command: [sh, -c, exit 3]}]\n")
	s.write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{name: main, image: \"localhost/busybox:1\", command: [/no/such/program]}]\n")

	s.waitPhase("web-n", v1.PodRunning)
	s.waitPhase("volumes-n", v1.PodRunning)
	done := s.waitPhase("done-n", v1.PodFailed)
	require.EqualValues(t, 3, mainOf(done).State.Terminated.ExitCode)
	s.eventually("a failed probe restarts its container", func() bool { return mainOf(s.pods()["sick-n"]).RestartCount > 0 })
	s.eventually("a program that is not there is told", func() bool {
		waiting := mainOf(s.pods()["broken-n"]).State.Waiting
		return waiting != nil && waiting.Reason != "ContainerCreating"
	})

	require.NoError(t, syscall.Kill(s.waitStarts(webPIDs, 1)[0], syscall.SIGKILL))
	pids := s.waitStarts(webPIDs, 2)
	s.eventually("the exit of the killed container", func() bool {
		main := mainOf(s.pods()["web-n"])
		return main.RestartCount == 1 && main.State.Running != nil && main.LastTerminationState.Terminated != nil && main.LastTerminationState.Terminated.ExitCode == 137
	})

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	log := func(path string) string {
		r, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/containerLogs/default/%s", port, path))
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, "written\ncolour=\"blue\"", strings.TrimSpace(log("volumes-n/main")))
	assert.Equal(t, fmt.Sprintf("from %d\n", pids[1]), log("web-n/main"))
	assert.Equal(t, fmt.Sprintf("from %d\n", pids[0]), log("web-n/main?previous=true"))
	runsCommands(t, port)

	s.kill()
	require.NoError(t, os.Remove(filepath.Join(s.manifests, "done.yaml")))
	s.start("--keep-pods")
	s.waitPhase("web-n", v1.PodRunning)
	s.waitPhase("volumes-n", v1.PodRunning)
	s.interrupt()
	s.start()
	s.waitPhase("web-n", v1.PodRunning)
	require.Equal(t, pids, s.started(webPIDs), "the pods outlived two agents")
	require.True(t, alive(pids[1]))
	require.EqualValues(t, 1, mainOf(s.pods()["web-n"]).RestartCount)

	for _, name := range []string{"web.yaml", "volumes.yaml", "sick.yaml", "broken.yaml"} {
		s.remove(name)
	}
	s.eventually("nothing is left", func() bool { return len(left(s, c)) == 0 && len(s.pods()) == 0 })
	require.False(t, alive(pids[1]))
}

// runsCommands runs a command with input and an exit code by each protocol.
func runsCommands(t *testing.T, port int) {
	for _, protocol := range clients {
		u, err := url.Parse(fmt.Sprintf("https://127.0.0.1:%d/exec/default/volumes-n/main?command=sh&command=-c&command=%s&input=1&output=1&error=1",
			port, url.QueryEscape("cat; echo wrong >&2; exit 4")))
		require.NoError(t, err)
		config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		client, err := remotecommand.NewSPDYExecutor(config, "POST", u)
		if protocol == "WebSocket" {
			client, err = remotecommand.NewWebSocketExecutor(config, "GET", u.String())
		}
		require.NoError(t, err)
		var out, errOut bytes.Buffer
		err = client.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut})
		exit := utilexec.CodeExitError{}
		require.True(t, errors.As(err, &exit), "%s: %v", protocol, err)
		assert.Equal(t, 4, exit.Code)
		assert.Equal(t, "hello", out.String())
		assert.Equal(t, "wrong\n", errOut.String())
	}
}
