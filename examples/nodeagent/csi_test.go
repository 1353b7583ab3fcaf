// SPDX-License-Identifier: Apache-2.0

//go:build !nocsi

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// newDriver runs a CSI driver until the test ends.
func newDriver(t *testing.T) *csitest.Driver {
	t.Helper()
	return newDriverOf(t, csitest.Options{})
}

func newDriverOf(t *testing.T, opts csitest.Options) *csitest.Driver {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // a socket's path must be short
	require.NoError(t, err)
	opts.Dir, opts.Socket = dir, filepath.Join(dir, "csi.sock")
	driver, err := csitest.New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- driver.Run(ctx) }()
	<-driver.Listening()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, os.RemoveAll(dir))
	})
	return driver
}

func socketOf(d *csitest.Driver) []string {
	return []string{"--csi-sockets", csitest.DefaultName + "=unix://" + d.Socket()}
}

// volumesOf returns the volumes on the driver's disk.
func volumesOf(t *testing.T, d *csitest.Driver) (handles []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(d.Volume("x")))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		handles = append(handles, e.Name())
	}
	return handles
}

func TestInlineCSIVolume(t *testing.T) {
	t.Parallel()
	driver := newDriver(t)
	s := newStation(t, backends["process"])
	s.write("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, csi: {driver: `+csitest.DefaultName+`, volumeAttributes: {colour: blue}}}]
  containers:
    - name: main
      image: localhost/busybox:1
      command: ["/bin/sh", "-c", "echo written > scratch/file; exec sleep 1000"]
      volumeMounts: [{name: scratch, mountPath: /scratch}]
`)
	s.start(socketOf(driver)...)
	s.waitPhase("web-n", v1.PodRunning)
	var handles []string
	s.eventually("the driver has what the container wrote", func() bool {
		if handles = volumesOf(t, driver); len(handles) != 1 {
			return false
		}
		text, _ := os.ReadFile(filepath.Join(driver.Volume(handles[0]), "file"))
		return string(text) == "written\n"
	})

	s.Log("the agent dies: the volume stays, and is not published again")
	s.kill()
	s.start(socketOf(driver)...)
	s.waitPhase("web-n", v1.PodRunning)
	require.Equal(t, []string{"NodePublishVolume"}, driver.Methods())
	require.FileExists(t, filepath.Join(driver.Volume(handles[0]), "file"))

	s.remove("web.yaml")
	s.eventually("nothing is left", func() bool {
		left, _ := os.ReadDir(filepath.Join(s.root, "pods"))
		return len(left) == 0 && len(volumesOf(t, driver)) == 0
	})
	require.Equal(t, []string{"NodePublishVolume", "NodeUnpublishVolume"}, driver.Methods())
}

// A pod waits for a driver that starts later.
func TestCSIDriverComesLater(t *testing.T) {
	t.Parallel()
	driver := newDriver(t)
	s := newStation(t, backends["process"])
	s.write("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, csi: {driver: `+csitest.DefaultName+`}}]
  containers: [{name: main, image: localhost/busybox:1, command: [sleep, "1000"], volumeMounts: [{name: scratch, mountPath: /scratch}]}]
`)
	hidden := driver.Socket() + ".hidden"
	require.NoError(t, os.Rename(driver.Socket(), hidden))
	s.start(socketOf(driver)...)
	s.eventually("the pod is known", func() bool { return len(s.pods()) == 1 })
	time.Sleep(200 * time.Millisecond)
	require.NotEqual(t, v1.PodRunning, s.pods()["web-n"].Status.Phase)
	require.Empty(t, driver.Methods())
	require.NoError(t, os.Rename(hidden, driver.Socket()))
	s.waitPhase("web-n", v1.PodRunning)
}

func TestCSISocketsAreChecked(t *testing.T) {
	parse := func(text string) (flags, error) {
		return parseFlags([]string{t.TempDir(), "--hostname-override", "n", "--csi-sockets", text})
	}
	f, err := parse("a.example.com=unix:///run/a.sock,b.example.com=/run/b.sock")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.example.com": "/run/a.sock", "b.example.com": "/run/b.sock"}, f.csiSockets)
	for _, bad := range []string{"a.example.com=run/a.sock", "a/b=/run/a.sock", "a.example.com", "=/run/a.sock"} {
		_, err = parse(bad)
		require.Error(t, err, bad)
	}
}

type tokenFunc func(projected.TokenRequest) (projected.Token, error)

func (f tokenFunc) Token(_ context.Context, r projected.TokenRequest) (projected.Token, error) {
	return f(r)
}

func TestTokensForDrivers(t *testing.T) {
	var asked projected.TokenRequest
	made := projected.Token{Value: "hunter2"}
	tokens := driverTokens(func() tokenMaker {
		return tokenFunc(func(r projected.TokenRequest) (projected.Token, error) { asked = r; return made, nil })
	})
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", "web", "u"
	got, err := tokens.Token(t.Context(), pod, "vault", nil)
	require.NoError(t, err)
	require.Equal(t, made.Value, got.Value)
	require.Equal(t, projected.TokenRequest{Namespace: "ns", ServiceAccount: "default", Pod: "web", PodUID: "u", Audience: "vault"}, asked)
	seconds := int64(600)
	pod.Spec.ServiceAccountName = "robot"
	_, err = tokens.Token(t.Context(), pod, "", &seconds)
	require.NoError(t, err)
	require.Equal(t, projected.TokenRequest{Namespace: "ns", ServiceAccount: "robot", Pod: "web", PodUID: "u", ExpirationSeconds: 600}, asked)
}
