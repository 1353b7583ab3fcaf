// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// The possible contents of a cell of the table.
const (
	yes     = "yes"
	always  = "always"
	checked = "checked"
	notRoot = "if not root"
	held    = "if held"
	refused = "refused"
	fails   = "fails" // in no cell: unsupported fields are refused
	inSpec  = "spec"
	nothing = "no effect"
	notHere = "–"
)

// cells are the results of a row for the backends.
type cells struct{ process, cri, fake string }

// backends are the backends under test.
type backends struct {
	gen         *runtime.DefaultGenerator
	plain, able *criServer
	cri         map[*criServer]runtime.Runtime
}

func newBackends(t *testing.T) *backends {
	b := &backends{plain: &criServer{}, able: &criServer{able: true}}
	b.cri = map[*criServer]runtime.Runtime{b.plain: b.plain.dial(t), b.able: b.able.dial(t)}
	store, err := objects.NewStore(objects.Options{})
	require.NoError(t, err)
	config, secret := &v1.ConfigMap{Data: map[string]string{"k": "v"}}, &v1.Secret{Data: map[string][]byte{"k": []byte("v")}}
	config.Namespace, config.Name, secret.Namespace, secret.Name = "default", "config", "default", "secret"
	store.SetConfigMap(config)
	store.SetSecret(secret)
	host := t.TempDir()
	b.gen, err = runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{
		LogRoot: t.TempDir(), Objects: store, HostIPs: []string{"192.0.2.1"},
		Volumes: func(_ context.Context, _ *v1.Pod, c *v1.Container) (out []runtime.Mount, err error) {
			for _, m := range c.VolumeMounts {
				out = append(out, runtime.Mount{Name: m.Name, HostPath: host, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly})
			}
			return out, nil
		},
	})
	require.NoError(t, err)
	return b
}

// podOf makes the pod of a row: a plain pod with spec, in YAML, added to it.
func podOf(t *testing.T, spec string) *v1.Pod {
	t.Helper()
	pod := nodetest.Pod("web", nodetest.Container("c"))
	whole := map[string]json.RawMessage{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &whole), "%s", spec)
	add := func(key string, to any) {
		if text, ok := whole[key]; ok {
			require.NoError(t, yaml.UnmarshalStrict(text, to), "%s", spec)
			delete(whole, key)
		}
	}
	c := &pod.Spec.Containers[0]
	add("c", c)
	if _, ok := whole["m"]; ok {
		c.VolumeMounts = make([]v1.VolumeMount, 1)
		pod.Spec.Volumes = []v1.Volume{{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		add("m", &c.VolumeMounts[0])
	}
	rest, err := json.Marshal(whole)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(rest, &pod.Spec), "%s", spec)
	return pod
}

// ask finds the effect of a row's fields on each backend.
func (b *backends) ask(t *testing.T, row podField) cells {
	t.Helper()
	base, with := podOf(t, row.base), podOf(t, row.with)
	out := cells{process: b.onProcess(t, base, with), cri: b.onCRI(t, base, with), fake: b.onFake(t, base, with)}
	out.cri, out.process = cmp.Or(row.cri, out.cri), cmp.Or(row.process, out.process)
	turnedAway := agentRefuses(t, with)
	require.False(t, agentRefuses(t, base), "%s: the pod without the field", row.path)
	for name, cell := range map[string]*string{"process": &out.process, "cri": &out.cri, "fake": &out.fake} {
		if turnedAway {
			*cell = refused
		}
		if *cell != nothing && (*cell != inSpec || row.by == byBackend) {
			continue
		}
		switch {
		case slices.Contains(strings.Fields(row.refuse), name):
			*cell = refused
		case row.by == byCluster:
			*cell = notHere
		case row.by != byBackend && row.by != byNobody && !slices.Contains(strings.Fields(row.idle), name):
			*cell = yes
		}
	}
	switch {
	case row.says != "":
		return cells{row.says, row.says, row.says}
	}
	require.NotContains(t, []string{out.process, out.cri, out.fake}, fails, "%s: it is to be refused", row.path)
	if row.by == byBackend && out.cri != refused {
		require.Contains(t, out.cri, yes, "%s: no CRI runtime is told of it; say who honours it", row.path)
	}
	return out
}

// made makes the sandbox and the first container of a pod on a backend.
func (b *backends) made(t *testing.T, rt runtime.Runtime, pod *v1.Pod) error {
	t.Helper()
	sandbox, err := b.gen.Sandbox(t.Context(), pod, 0)
	if err != nil {
		return err
	}
	id, err := rt.RunSandbox(t.Context(), sandbox)
	if err != nil {
		return err
	}
	spec, _, err := b.gen.Container(t.Context(), pod, runtime.Ref{}, runtime.ContainerInput{Hash: "hash", PodIPs: []string{"10.0.0.7"}})
	if err != nil {
		return err
	}
	spec.ImageID = "sha256:1"
	_, err = rt.CreateContainer(t.Context(), id, spec)
	return err
}

func checks(t *testing.T, rt runtime.Runtime, pod *v1.Pod) error {
	t.Helper()
	checker, ok := rt.(runtime.Checker)
	require.True(t, ok)
	return checker.CheckPod(pod)
}

// onCRI asks a runtime with few abilities and a runtime with many abilities.
func (b *backends) onCRI(t *testing.T, base, with *v1.Pod) string {
	t.Helper()
	one := func(s *criServer) string {
		rt := b.cri[s]
		if err := checks(t, rt, with); err != nil {
			require.ErrorIs(t, err, runtime.ErrUnsupported)
			return refused
		}
		require.NoError(t, b.made(t, rt, base), "the pod without the field")
		before := s.take(t)
		require.NoError(t, b.made(t, rt, base))
		require.Equal(t, before, s.take(t), "the same pod twice")
		if err := b.made(t, rt, with); err != nil {
			t.Log(err)
			s.take(t)
			return fails
		}
		if s.take(t) == before {
			return nothing
		}
		return yes
	}
	switch plain, able := one(b.plain), one(b.able); {
	case plain == refused && able == yes:
		return yes + ", if able"
	case plain == refused && able == nothing:
		return nothing
	default:
		return able
	}
}

// onProcess compares the records that the backend writes.
func (b *backends) onProcess(t *testing.T, base, with *v1.Pod) string {
	t.Helper()
	record := func(pod *v1.Pod) (string, error) {
		root := filepath.Join(t.TempDir(), "p")
		rt, err := process.New(process.Options{Root: root, HostIPs: []string{"192.0.2.1"}})
		require.NoError(t, err)
		if err := checks(t, rt, pod); err != nil {
			require.ErrorIs(t, err, runtime.ErrUnsupported)
			return refused, nil
		}
		if err := b.made(t, rt, pod); err != nil {
			return "", err
		}
		return records(t, root), nil
	}
	before, err := record(base)
	require.NoError(t, err)
	after, err := record(with)
	switch {
	case after == refused:
		return refused
	case err != nil:
		t.Log(err)
		return fails
	case after == before:
		return nothing
	default:
		return yes
	}
}

// records returns the JSON files below root without values that differ between runs, and without
// labels and annotations.
func records(t *testing.T, root string) string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".json" {
			return err
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		for key := range fields {
			if slices.Contains([]string{"id", "createdat", "created", "annotations", "labels", "bootid", "logpath", "sandbox"}, strings.ToLower(key)) {
				delete(fields, key)
			}
		}
		if dir, _ := fields["dir"].(string); strings.HasPrefix(dir, root) {
			delete(fields, "dir")
		}
		if env, ok := fields["env"].([]any); ok {
			fields["env"] = slices.DeleteFunc(env, func(e any) bool {
				return strings.Contains(fmt.Sprint(e), root) || strings.HasPrefix(fmt.Sprint(e), "KEELSON_CONTAINER_ID=")
			})
		}
		text, err = json.Marshal(fields)
		out = append(out, filepath.Base(name)+" "+string(text))
		return err
	}))
	return strings.Join(out, "\n")
}

// onFake compares the input of the fake's scripts, apart from the pod itself.
func (b *backends) onFake(t *testing.T, base, with *v1.Pod) string {
	t.Helper()
	seen := func(pod *v1.Pod) string {
		sandbox, err := b.gen.Sandbox(t.Context(), pod, 0)
		container, _, err2 := b.gen.Container(t.Context(), pod, runtime.Ref{}, runtime.ContainerInput{PodIPs: []string{"10.0.0.7"}})
		if err := errors.Join(err, err2); err != nil {
			return ""
		}
		sandbox.Pod, sandbox.Labels, sandbox.Annotations = nil, nil, nil
		container.Pod, container.Container, container.Labels, container.Annotations = nil, nil, nil, nil
		return fmt.Sprintf("%+v %+v", sandbox, container)
	}
	if after := seen(with); after != "" && after != seen(base) {
		return inSpec
	}
	return nothing
}

// withImages is a runtime that has every image.
type withImages struct{ *nodetest.Runtime }

func (withImages) ImageID(_ context.Context, image string) (string, error) { return image, nil }

func (withImages) PullImage(_ context.Context, image string, _ *runtime.ImageAuth) (string, error) {
	return image, nil
}

// agentRefuses asks a whole agent on a backend that accepts everything.
func agentRefuses(t *testing.T, pod *v1.Pod) (refused bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		machine := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			store, err := objects.NewStore(objects.Options{})
			require.NoError(t, err)
			o.Objects, o.Runtime = store, withImages{o.Runtime.(*nodetest.Runtime)}
		}})
		machine.Apply(pod)
		refused = machine.Status("web").Phase == v1.PodFailed
	})
	return refused
}
