// SPDX-License-Identifier: Apache-2.0

//go:build linux && !nolocalapi

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// allKinds has an object of every kind whose effect can be seen in a log.
const allKinds = `apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {WORD: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: hush}
stringData: {token: t0p}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: localhost/busybox
        command: [/bin/sh, -c, 'echo "$WORD $(cat hush/token)" > data/$HOSTNAME; exec sleep 1d']
        envFrom: [{configMapRef: {name: words}}]
        volumeMounts:
        - {name: hush, mountPath: hush}
        - {name: data, mountPath: data}
      volumes:
      - {name: hush, secret: {secretName: hush}}
      - {name: data, persistentVolumeClaim: {claimName: data}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: count}
spec:
  completions: 3
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers:
      - {name: c, image: i, command: [/bin/sh, -c, 'echo run >> data/runs'], volumeMounts: [{name: data, mountPath: data}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: [/bin/false]}]}}
`

// verb runs a command such as "nodeagent ps".
func (s *station) verb(args ...string) (out string, code int) {
	var b bytes.Buffer
	code, _ = runCommand(append(args, "--root-dir", s.root), &b, &b)
	return b.String(), code
}

// A manifest of several kinds in the folder runs on the process backend. What has ended does not run
// again after a restart of the agent.
func TestKindsInAFolder(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	s.write("all.yaml", allKinds)
	s.start("--keep-pods")
	runs := func() string {
		text, _ := os.ReadFile(filepath.Join(s.root, "claims/default/data/runs"))
		return string(text)
	}
	for _, name := range []string{"web-0-n", "web-1-n"} {
		s.waitPhase(name, v1.PodRunning)
		s.eventually("the container of "+name+" has the objects", func() bool {
			text, _ := os.ReadFile(filepath.Join(s.root, "claims/default/data", name))
			return string(text) == "hello t0p\n"
		})
	}
	s.waitPhase("count-2-n", v1.PodSucceeded)
	s.waitPhase("fails-0-n", v1.PodFailed)
	require.Equal(t, "run\nrun\nrun\n", runs())

	s.kill()
	s.start("--keep-pods")
	s.waitPhase("count-2-n", v1.PodSucceeded)
	s.waitPhase("web-0-n", v1.PodRunning)
	s.write("all.yaml", strings.Replace(allKinds, "replicas: 2", "replicas: 1", 1))
	s.eventually("a replica ends", func() bool { _, has := s.pods()["web-1-n"]; return !has })
	s.write("late.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: late}\nspec: {restartPolicy: Never, containers: [{name: c, image: i, "+
		"command: [/bin/sh, -c, 'test \"$WEB_SERVICE_HOST:$WEB_SERVICE_PORT\" = 127.0.0.1:8080']}]}\n")
	s.waitPhase("late-n", v1.PodSucceeded)
	require.Equal(t, "run\nrun\nrun\n", runs(), "a finished Job does not run again")
	require.Contains(t, s.log.String(), `"reason":"Completed"`, "the end of the Job is an event")
	s.write("all.yaml", strings.Replace(allKinds, "kind: Deployment", "kind: Ingress", 1))
	s.eventually("the refusal names the line", func() bool { return strings.Contains(s.log.String(), "/all.yaml:22:7: kind: Ingress refused") })
	require.Contains(t, s.pods(), "web-0-n", "the last valid content runs on")
	s.remove("all.yaml")
	s.eventually("all pods of the manifest end", func() bool { return len(s.pods()) == 1 })
	require.Equal(t, "run\nrun\nrun\n", runs(), "the claim is kept")
}

// withClass is a program whose claims have a class that the owner of the node has to add.
const withClass = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: fast-ssd, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: i, command: [/bin/sh, -c, 'echo start >> data/starts; exec sleep 1d'], volumeMounts: [{name: data, mountPath: data}]}
`

// A class that the node does not have is refused with the remedy. When an agent starts without the class
// later, the claim keeps its folder, and the pod runs on. Only a new claim is refused.
func TestClassesOfClaimsAreOfTheNode(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	s.write("db.yaml", withClass)
	s.start("--keep-pods")
	const refusal = `/db.yaml:9:30: spec.volumeClaimTemplates[0].spec.storageClassName: this node has the classes [\"local\"]: set one of them, remove the field, or add the class to the node (nodeagent --storage-class fast-ssd)`
	s.eventually("the refusal has the remedy", func() bool { return strings.Contains(s.log.String(), refusal) })
	s.kill()
	s.start("--keep-pods", "--storage-class", "slow", "--storage-class", "fast-ssd")
	first := s.waitPhase("db-0-n", v1.PodRunning)
	starts := filepath.Join(s.root, "claims/default/data-db-0/starts")
	s.eventually("the claim is a folder", func() bool { text, _ := os.ReadFile(starts); return string(text) == "start\n" })

	s.kill()
	s.start("--keep-pods")
	s.eventually("a notice", func() bool {
		return strings.Contains(s.log.String(), "9:12: spec.volumeClaimTemplates[0].spec.storageClassName: ignored: this node does not have the class any more")
	})
	again := s.waitPhase("db-0-n", v1.PodRunning)
	require.Equal(t, first.UID, again.UID)
	s.write("db.yaml", strings.Replace(withClass, "replicas: 1", "replicas: 2", 1))
	s.eventually("the new claim is refused", func() bool { return strings.Count(s.log.String(), refusal) > 1 })
	require.Len(t, s.pods(), 1)
	text, err := os.ReadFile(starts)
	require.NoError(t, err)
	require.Equal(t, "start\n", string(text), "the container was not restarted")
	s.remove("db.yaml")
	s.eventually("the pod ends", func() bool { return len(s.pods()) == 0 })
	require.FileExists(t, starts, "the claim is kept")

	_, err = parseFlags([]string{s.manifests, "--storage-class", "Fast"})
	require.ErrorContains(t, err, `--storage-class "Fast": `)
}

// "nodeagent apply" and "nodeagent rm" write and remove manifests of all kinds.
func TestKindsAreApplied(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	s.start()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(path, []byte(allKinds), 0o600))
	out, code := s.verb("apply", "-f", path)
	require.Zero(t, code, out)
	require.Equal(t, "shop was applied\n", out)
	s.waitPhase("web-1-n", v1.PodRunning)
	out, code = s.verb("rm", "-f", path)
	require.Zero(t, code, out)
	for name := range s.pods() {
		require.NotContains(t, name, "web-")
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(allKinds, "replicas", "replica", 1)), 0o600))
	out, code = s.verb("apply", "-f", path)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, `25:3: unknown field "spec.replica", did you mean "replicas"?`)
	out, code = s.verb("rm", "-f", path)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, `manifests "shop" not found`)
}
