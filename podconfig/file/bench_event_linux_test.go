// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// BenchmarkEvent measures the CPU time, of all threads, of a changed manifest among many, from the
// hint to the merge: glances, a scan, and the submitted changes. The goal is 5 ms at 1,000. The
// source mostly waits, so the relevant number is cpu-ns/op. A manifest is written in place or, as
// by editors, renamed over. naive is the kubelet's listing: it reads and decodes every file, and
// merges all of them.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprintf("in-place/manifests=%d", n), func(b *testing.B) {
			f := newEventBench(b, n)
			f.run(func(text string) { f.write(f.path(1), text) })
		})
		b.Run(fmt.Sprintf("renamed/manifests=%d", n), func(b *testing.B) {
			f := newEventBench(b, n)
			f.run(func(text string) {
				f.write(f.dir+"/.new", text)
				require.NoError(b, os.Rename(f.dir+"/.new", f.path(1)))
			})
		})
		b.Run(fmt.Sprintf("naive/manifests=%d", n), func(b *testing.B) {
			f := newEventBench(b, n)
			f.measure(func(text string) { f.write(f.path(1), text) }, func() {
				_, err := f.store.Merge(b.Context(), podconfig.SourceFile, podconfig.Snapshot(f.decodeAll()...))
				require.NoError(b, err)
			})
		})
	}
}

type eventBench struct {
	*testing.B
	dir     string
	decoder *manifest.Decoder
	store   *podconfig.Store
}

func newEventBench(b *testing.B, n int) *eventBench {
	f := &eventBench{B: b, dir: b.TempDir(), decoder: &manifest.Decoder{NodeName: "n"}}
	for i := range n {
		require.NoError(b, os.WriteFile(f.path(i), []byte(realistic(i, 0)), 0o644))
	}
	var err error
	f.store, err = podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(b, err)
	return f
}

func (f *eventBench) path(i int) string { return filepath.Join(f.dir, fmt.Sprintf("%04d.yaml", i)) }

func (f *eventBench) write(path, text string) {
	require.NoError(f, os.WriteFile(path, []byte(text), 0o644))
}

// run measures a running source that receives a hint for every edit.
func (f *eventBench) run(edit func(text string)) {
	hints := make(chan struct{})
	s, err := file.New(file.Config{Path: f.dir, Decoder: f.decoder, Hinter: file.HinterFunc(
		func(ctx context.Context, _ string) (<-chan struct{}, error) {
			out := make(chan struct{})
			go func() {
				defer close(out)
				for {
					select {
					case <-ctx.Done():
						return
					case h := <-hints:
						out <- h
					}
				}
			}()
			return out, nil
		})})
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(f.Context())
	heard, done := make(chan podconfig.Update), make(chan error)
	go func() {
		done <- podconfig.Run(ctx, f.store, func(_ context.Context, u podconfig.Update) error { heard <- u; return nil }, s)
	}()
	<-heard
	time.Sleep(3200 * time.Millisecond) // until the files are old enough to be trusted
	hints <- struct{}{}
	time.Sleep(300 * time.Millisecond)
	f.measure(edit, func() {
		hints <- struct{}{}
		for range 2 { // a removal and an addition
			<-heard
		}
	})
	cancel()
	require.NoError(f, <-done)
}

// measure edits a manifest and measures the effects, again and again.
func (f *eventBench) measure(edit func(text string), then func()) {
	var spent time.Duration
	round := 0
	f.ReportAllocs()
	for f.Loop() {
		round++
		edit(realistic(1, round))
		before := cpuTime(f.B)
		then()
		spent += cpuTime(f.B) - before
	}
	f.ReportMetric(float64(spent)/float64(f.N), "cpu-ns/op")
	f.ReportMetric(5e6, "goal-ns")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// realistic is a manifest of two containers with probes, environment and mounts.
func realistic(i, round int) string {
	const container = `
  - name: %s
    image: registry.example/%[1]s:%d
    args: ["--v=2", "--listen=:8080"]
    env:
    - {name: NAME, value: web}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    ports: [{name: %[1]s, containerPort: 8080}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    livenessProbe: {httpGet: {path: /healthz, port: 8080}}
    volumeMounts: [{name: data, mountPath: /data}]`
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p%d\n  labels: {app: web}\nspec:\n"+
		"  volumes: [{name: data, hostPath: {path: /srv/data}}]\n  containers:", i) +
		fmt.Sprintf(container, "web", round) + fmt.Sprintf(container, "logs", 1) + "\n"
}

func (f *eventBench) decodeAll() (pods []*v1.Pod) {
	entries, err := os.ReadDir(f.dir)
	require.NoError(f, err)
	for _, e := range entries {
		path := filepath.Join(f.dir, e.Name())
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		p, err := f.decoder.Pod(data, manifest.Origin{Kind: manifest.OriginFile, Location: path})
		require.NoError(f, err)
		pods = append(pods, p)
	}
	return pods
}
