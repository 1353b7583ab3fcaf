// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	podmanifest "github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/prober/handlers"
	"github.com/keelson-dev/keelson/runtime"
)

// canary is the content of all secret values, and of nothing else. It is a number, so that a
// manifest can have it without quotes.
const canary = "70417041704170417"

// TestNoSecretIsTold gives the agent manifests with a canary in every variable, Secret, header and
// credential. Many manifests are damaged, and the runtime quotes its input in errors. The test
// searches all output: errors of manifests, the log, events and statuses. KEELSON_SOAK=1 tries
// 10,000 manifests.
func TestNoSecretIsTold(t *testing.T) {
	batches, size := 20, 10
	if os.Getenv("KEELSON_SOAK") == "1" {
		batches = 1000
	}
	var refused, failed int
	var leaks []string // told after the last bubble: a bubble that fails ends the test
	for seed := range batches {
		synctest.Test(t, func(t *testing.T) {
			told := &listener{}
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			var pods []*v1.Pod
			dec := &podmanifest.Decoder{NodeName: "node", Strict: random.IntN(2) == 0, Policy: anything}
			for i := range size {
				text := taintedManifest(random, fmt.Sprintf("p%d", i), t.TempDir())
				pod, err := dec.Pod([]byte(text), podmanifest.Origin{Kind: podmanifest.OriginFile, Location: "/p.yaml"})
				if err != nil {
					refused++
					told.add("the error of a manifest", err.Error())
					continue
				}
				pods = append(pods, pod)
			}
			machine := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { told.attach(t, o, random) }})
			machine.Apply(pods...)
			time.Sleep(5 * time.Minute)
			machine.Apply()
			time.Sleep(time.Minute)
			machine.StopAgent()
			failed += told.failures
			leaks = append(leaks, told.leaks(seed)...)
		})
	}
	assert.Empty(t, leaks)
	t.Logf("%d manifests refused, %d calls failed", refused, failed)
	require.Positive(t, refused, "no manifest was refused: the test tries too little")
	require.Positive(t, failed, "no call failed: the test tries too little")
}

// anything lets static pods refer to Secrets, as an agent with objects of its own does.
func anything(*v1.Pod) error { return nil }

// listener keeps all that an agent says.
type listener struct {
	mu       sync.Mutex
	text     bytes.Buffer
	failures int // calls of the runtime that failed with a quotation
}

func (o *listener) add(where, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.text, "%s: %s\n", where, text)
}

// Write makes a listener the sink of a log.
func (o *listener) Write(p []byte) (int, error) {
	o.add("the log", string(p))
	return len(p), nil
}

// Event implements runtime.EventRecorder.
func (o *listener) Event(_ apiruntime.Object, _, reason, message string) {
	o.add("event "+reason, message)
}

// leaks returns the lines with the canary.
func (o *listener) leaks(seed int) (found []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		if strings.Contains(line, canary) {
			found = append(found, fmt.Sprintf("seed %d: %s", seed, line))
		}
	}
	return found
}

// attach replaces the agent's runtime and its receivers.
func (o *listener) attach(t *testing.T, opts *node.Options, random *rand.Rand) {
	opts.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(o), zap.DebugLevel))
	opts.Events = o
	opts.Status = func(_ *v1.Pod, status v1.PodStatus) {
		raw, err := json.Marshal(status)
		if err != nil {
			panic(err)
		}
		o.add("a status", string(raw))
	}
	opts.Objects = taintedObjects{}
	rt := &quoter{Runtime: opts.Runtime.(*nodetest.Runtime), told: o, specs: map[string]runtime.ContainerSpec{}, random: random}
	opts.Runtime = rt
	handler, err := handlers.New(handlers.Options{Runner: execByText{rt}})
	require.NoError(t, err)
	opts.ProbeHandler = handler
}

// execByText is a handlers.Runner.
type execByText struct{ rt *quoter }

func (e execByText) Exec(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, code int, err error) {
	return e.rt.Exec(ctx, runtime.ContainerID{ID: id}, cmd)
}

// quoter fails often, and quotes its input: containerd and runc quote commands, registries quote
// credentials.
type quoter struct {
	*nodetest.Runtime
	told   *listener
	mu     sync.Mutex
	random *rand.Rand
	specs  map[string]runtime.ContainerSpec
}

// mayFail returns an error with the quotation, more often than not.
func (q *quoter) mayFail(call, quotation string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.random.IntN(3) == 0 {
		return nil
	}
	q.told.mu.Lock()
	q.told.failures++
	q.told.mu.Unlock()
	return fmt.Errorf("%s: %s", call, quotation)
}

func quotation(spec *runtime.ContainerSpec) string {
	return fmt.Sprintf("%q %v %q %+v %+v", spec.Command, spec.Args, spec.Args, spec.Env, spec.Mounts)
}

func (q *quoter) CreateContainer(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if err := q.mayFail("CreateContainer", quotation(&spec)); err != nil {
		return runtime.ContainerID{}, err
	}
	made, err := q.Runtime.CreateContainer(ctx, id, spec)
	if err == nil {
		q.mu.Lock()
		q.specs[made.ID] = spec
		q.mu.Unlock()
	}
	return made, err
}

func (q *quoter) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	q.mu.Lock()
	spec := q.specs[id.ID]
	q.mu.Unlock()
	if err := q.mayFail("StartContainer", quotation(&spec)); err != nil {
		return err
	}
	return q.Runtime.StartContainer(ctx, id)
}

// Exec implements runtime.Execer, for hooks and probes.
func (q *quoter) Exec(_ context.Context, _ runtime.ContainerID, cmd []string) (stdout, stderr []byte, code int, err error) {
	if err := q.mayFail("Exec", fmt.Sprintf("%q", cmd)); err != nil {
		return nil, nil, 0, err
	}
	return fmt.Appendf(nil, "cannot run %s", cmd), nil, 1, nil
}

// ImageID implements runtime.Images: half of the images are to be pulled.
func (q *quoter) ImageID(_ context.Context, image string) (string, error) {
	if strings.Contains(image, "pulled") {
		return "", nil
	}
	return "sha256:" + image, nil
}

// PullImage implements runtime.Images.
func (q *quoter) PullImage(_ context.Context, image string, auth *runtime.ImageAuth) (string, error) {
	if auth != nil {
		if err := q.mayFail("PullImage", fmt.Sprintf("%q %q", auth.Username+":"+auth.Password, auth.Auth)); err != nil {
			return "", err
		}
	}
	return "sha256:" + image, nil
}

// taintedObjects has every ConfigMap and Secret, with the canary in each value.
type taintedObjects struct{}

func (taintedObjects) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if name == "missing" {
		return nil, errors.New("no answer")
	}
	cm := &v1.ConfigMap{Data: map[string]string{"KEY": "config-" + canary, "NUL": canary + "\x00"}}
	cm.Namespace, cm.Name = namespace, name
	return cm, nil
}

func (taintedObjects) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s := &v1.Secret{Data: map[string][]byte{"KEY": []byte("secret\n\"" + canary + "\"")}}
	s.Namespace, s.Name = namespace, name
	if name == "registry" {
		s.Type = v1.SecretTypeDockerConfigJson
		s.Data = map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"localhost":{"username":"u","password":"` + canary + `"}}}`)}
	}
	return s, nil
}

// taintedManifest writes a manifest with canaries. Every other manifest is damaged. dir is a folder
// of the host with a file named like the canary, in the way of a subPath.
func taintedManifest(random *rand.Rand, name, dir string) string {
	pick := func(options ...string) string { return options[random.IntN(len(options))] }
	_ = os.WriteFile(filepath.Join(dir, canary), nil, 0o600)
	command := pick(`"/nonexist/$(TOKEN)"`, `"/bin/sh", "-c", "echo $(TOKEN) $(SECRET)"`, `"/$(CONFIG)/x"`, `"/bin/$(FROM_KEY)"`)
	probe := pick(
		`exec: {command: ["/nonexist/$(TOKEN)"]}`,
		`httpGet: {port: 1, host: 127.0.0.1, httpHeaders: [{name: Authorization, value: "Bearer `+canary+`"}]}`,
		`httpGet: {port: 1, host: 127.0.0.1, scheme: HTTPS, httpHeaders: [{name: "X Y", value: "`+canary+`"}]}`,
	)
	hook := pick(
		`exec: {command: ["/nonexist/hook"]}`,
		`httpGet: {port: 1, host: 127.0.0.1, httpHeaders: [{name: Authorization, value: "Basic `+canary+`"}]}`,
	)
	text := `apiVersion: v1
kind: Pod
metadata:
  name: ` + name + `
  uid: uid-` + name + `
spec:
  restartPolicy: ` + pick("Always", "OnFailure", "Never") + `
  imagePullSecrets: [{name: registry}]
  volumes:
  - name: data
    hostPath: {path: ` + dir + `}
  containers:
  - name: c
    image: localhost/` + pick("pulled", "present") + `:1
    command: [` + command + `]
    args: ["` + pick("--token=$(TOKEN)", "$(SECRET)", "plain") + `"]
    env:
    - name: TOKEN
      value: ` + pick(`"`+canary+`"`, `token-`+canary, `"a`+canary+` b"`) + `
    - name: SECRET
      valueFrom: {secretKeyRef: {name: s, key: KEY}}
    - name: CONFIG
      valueFrom: {configMapKeyRef: {name: ` + pick("c", "c", "missing") + `, key: ` + pick("KEY", "KEY", "NUL", "other") + `}}
    - name: BOTH
      value: "$(TOKEN)$(SECRET)"
    envFrom:
    - prefix: FROM_
      secretRef: {name: s}
    livenessProbe:
      initialDelaySeconds: 1
      periodSeconds: 5
      ` + probe + `
    lifecycle:
      ` + pick("preStop", "postStart") + `:
        ` + hook + `
    volumeMounts:
    - name: data
      mountPath: /data
      ` + pick("subPathExpr: $(TOKEN)/x", "subPathExpr: $(SECRET)", "subPath: x") + `
`
	if random.IntN(2) == 0 {
		return text
	}
	return damage(random, text)
}

// damage makes a typical mistake of people and templates.
func damage(random *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	i := random.IntN(len(lines) - 1)
	switch random.IntN(10) {
	case 0: // a number, a list or a map where a text belongs
		value := []string{canary, "[" + canary + "]", "{a: " + canary + "}", "0x" + canary, canary + ": x", "!!binary " + canary, "*" + canary}[random.IntN(7)]
		for j := range lines {
			if strings.Contains(lines[j], "      value: ") {
				lines[j] = "      value: " + value
				break
			}
		}
	case 1:
		lines[i] = "  " + lines[i]
	case 2:
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	case 3:
		lines[i] = "\t" + lines[i]
	case 4: // twice
		lines[i] += "\n" + lines[i]
	case 5: // missing
		lines[i] = ""
	case 6: // cut off
		return strings.Join(lines[:i], "\n")
	case 7: // a quote that is not closed
		lines[i] += ` "`
	case 8: // a key without its value
		lines[i] = strings.Replace(lines[i], "value:", "valu:", 1)
	case 9:
		lines[i] = strings.Replace(lines[i], ": ", ":", 1)
	}
	return strings.Join(lines, "\n")
}
