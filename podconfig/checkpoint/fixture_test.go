// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

const secret = "hunter2"

// pod returns a pod with a secret in its environment.
func pod(name, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), ResourceVersion: image,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image, Env: []v1.EnvVar{{Name: "PASSWORD", Value: secret}}}}},
	}
}

// fixture is a store with a checkpoint in a folder of its own.
type fixture struct {
	*testing.T
	path   string
	store  *podconfig.Store
	writer *checkpoint.Writer

	logs *observer.ObservedLogs
}

func newFixture(t *testing.T, dir string, edit ...func(*checkpoint.Options)) *fixture {
	core, logs := observer.New(zap.InfoLevel)
	f := &fixture{T: t, path: filepath.Join(dir, "pods.checkpoint"), logs: logs}
	var err error
	f.store, err = podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(t, err)
	o := checkpoint.Options{Path: f.path, Pods: f.store, Logger: zap.New(core)}
	for _, e := range edit {
		e(&o)
	}
	f.writer, err = checkpoint.New(o)
	require.NoError(t, err)
	return f
}

// say merges a change and returns the updates.
func (f *fixture) say(source string, c podconfig.Change) []podconfig.Update {
	updates, err := f.store.Merge(f.Context(), source, c)
	require.NoError(f, err)
	return updates
}

// told returns the logged problems since the last call, "ok" for the end of a problem.
func (f *fixture) told() (problems []string) {
	for _, l := range f.logs.TakeAll() {
		text := "ok"
		if l.Level == zap.WarnLevel {
			text = strings.TrimPrefix(l.ContextMap()["error"].(string), "checkpoint "+f.path+": ")
		}
		problems = append(problems, text)
	}
	return problems
}

// read returns the pods of the file as "source/name=image".
func (f *fixture) read() []string {
	f.Helper()
	seed, err := checkpoint.Read(f.path)
	require.NoError(f, err)
	return briefly(f.T, seed)
}

func briefly(t *testing.T, seed map[string][]*v1.Pod) []string {
	t.Helper()
	s, err := podconfig.NewStore(podconfig.StoreOptions{Seed: seed})
	require.NoError(t, err, "what Read returns is always a seed")
	out := []string{}
	for source, p := range s.Pods() {
		out = append(out, fmt.Sprintf("%s/%s=%s", source, p.Name, p.Spec.Containers[0].Image))
	}
	return out
}

func (f *fixture) exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
