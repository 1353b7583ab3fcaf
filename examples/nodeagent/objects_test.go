// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

const colours = `apiVersion: v1
kind: ConfigMap
metadata: {name: colours}
data: {sky: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: door, namespace: house}
stringData: {code: hunter2}
`

func TestObjectsFollowTheirFolder(t *testing.T) {
	dir := t.TempDir()
	var changed []objects.Ref
	store, err := objects.NewStore(objects.Options{Changed: func(r objects.Ref) { changed = append(changed, r) }})
	require.NoError(t, err)
	folder := newObjectFolder(dir, store, zap.NewNop())
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		folder.look()
	}
	sky := func() string {
		cm, err := store.ConfigMap(t.Context(), "default", "colours")
		if err != nil {
			return ""
		}
		return cm.Data["sky"]
	}
	write("a.yaml", colours)
	require.Equal(t, "blue", sky())
	secret, err := store.Secret(t.Context(), "house", "door")
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(secret.Data["code"]))
	require.Len(t, changed, 2)

	folder.look()
	require.Len(t, changed, 2, "nothing has changed")
	write("a.yaml", strings.Replace(colours, "blue", "grey", 1))
	require.Equal(t, "grey", sky())
	for _, bad := range []string{"kind: [", "kind: Pod\napiVersion: v1", strings.Replace(colours, "data:", "dada:", 1)} {
		write("a.yaml", bad)
		require.Equal(t, "grey", sky(), "a file that cannot be used changes nothing")
	}
	write("b.txt", "no manifest")
	write("a.yaml", strings.Split(colours, "---")[1])
	require.Empty(t, sky(), "it left the file")
	require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
	folder.look()
	_, err = store.Secret(t.Context(), "house", "door")
	require.Error(t, err)
}

// The problem of a faulty file ends with the removal of the file.
func TestTheProblemOfARemovedFileEnds(t *testing.T) {
	dir, p := t.TempDir(), &problems{}
	store, err := objects.NewStore(objects.Options{})
	require.NoError(t, err)
	folder := newObjectFolder(dir, store, zap.New(p))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("kind: ["), 0o600))
	folder.look()
	require.Len(t, p.lines(), 1)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
	folder.look()
	require.Empty(t, p.lines())
}

// An object that moves to another file is always present, in any order of reads. Of an object in
// two files, the remaining file counts.
func TestObjectsMayMoveToAnotherFile(t *testing.T) {
	for _, names := range [][2]string{{"a.yaml", "b.yaml"}, {"b.yaml", "a.yaml"}} {
		dir := t.TempDir()
		store, err := objects.NewStore(objects.Options{})
		require.NoError(t, err)
		folder := newObjectFolder(dir, store, zap.NewNop())
		from, to := filepath.Join(dir, names[0]), filepath.Join(dir, names[1])
		sky := func() string {
			cm, err := store.ConfigMap(t.Context(), "default", "colours")
			if err != nil {
				return ""
			}
			return cm.Data["sky"]
		}
		require.NoError(t, os.WriteFile(from, []byte(colours), 0o600))
		folder.look()
		require.NoError(t, os.Rename(from, to))
		folder.look()
		require.Equal(t, "blue", sky(), names)

		door := strings.Split(colours, "---")[1]
		require.NoError(t, os.WriteFile(from, []byte(colours), 0o600))
		require.NoError(t, os.WriteFile(to, []byte(door), 0o600))
		folder.look()
		require.Equal(t, "blue", sky(), names)

		require.NoError(t, os.WriteFile(to, []byte(strings.Replace(colours, "blue", "red", 1)), 0o600))
		folder.look()
		require.NoError(t, os.Remove(to))
		folder.look()
		folder.look()
		require.Equal(t, "blue", sky(), names)
	}
}

func TestErrorsAboutObjectsShowNothingOfThem(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {a: [hunter2]}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nhunter2: hunter2",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: hunter2!}",
		"hunter2: [",
	} {
		_, err := decodeObjects([]byte(text))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// Volumes of every local kind on the process backend: containers see a change, environments come
// from objects, and no leftovers remain.
func TestVolumesOnTheProcessBackend(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	objectsDir := filepath.Join(s.dir, "objects")
	require.NoError(t, os.Mkdir(objectsDir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(objectsDir, "all.yaml"), []byte(strings.ReplaceAll(colours, ", namespace: house", "")), 0o600))
	out := filepath.Join(s.dir, "out")
	s.write("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: scratch, emptyDir: {}}
    - {name: colours, configMap: {name: colours}}
    - {name: door, secret: {secretName: door}}
    - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
    - name: all
      projected:
        sources: [{configMap: {name: colours}}, {secret: {name: door}}]
  containers:
    - name: main
      image: localhost/busybox:1
      env: [{name: SKY, valueFrom: {configMapKeyRef: {name: colours, key: sky}}}]
      command: ["/bin/sh", "-c", "while sleep 0.05; do echo $SKY $(cat colours/sky) $(cat door/code) $(cat about/labels) $(cat all/sky all/code) $(cat part) > scratch/x; cp scratch/x `+out+`; done"]
      volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: colours, mountPath: /colours}
        - {name: door, mountPath: /door}
        - {name: about, mountPath: /about}
        - {name: all, mountPath: /all}
        - {name: colours, mountPath: /part, subPath: sky}
`)
	s.start("--objects-path", objectsDir)
	s.waitPhase("web-n", v1.PodRunning)
	t.Cleanup(func() {
		if text, _ := os.ReadFile(out); t.Failed() {
			t.Logf("it saw: %s", text)
		}
	})
	says := func(want string) func() bool {
		return func() bool { text, _ := os.ReadFile(out); return strings.TrimSpace(string(text)) == want }
	}
	s.eventually("it sees its volumes", says(`blue blue hunter2 app="web" bluehunter2 blue`))
	require.NoError(t, os.WriteFile(filepath.Join(objectsDir, "all.yaml"), []byte(strings.ReplaceAll(strings.ReplaceAll(colours, ", namespace: house", ""), "blue", "grey")), 0o600))
	s.eventually("it sees the change, but not where Kubernetes shows none", says(`blue grey hunter2 app="web" greyhunter2 blue`))
	s.remove("web.yaml")
	s.eventually("nothing is left", func() bool {
		left, _ := os.ReadDir(filepath.Join(s.root, "pods"))
		return len(left) == 0
	})
	require.NotContains(t, s.log.String(), "hunter2")
}
