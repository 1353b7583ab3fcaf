// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"fmt"
	gopath "path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// On a node that runs a job each minute for a year, remembered data would add up. Some time after
// the end of a pod no map contains its data.
func TestNothingRemembersPodsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		n := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) { o.NodeLabels = map[string]string{"a": "b"} }})
		n.World.Script(fake.Target{Container: "job"}, fake.Exit(3*time.Second, 0))
		n.World.Script(fake.Target{Container: "crash"}, fake.Exit(3*time.Second, 1))
		probe := func(p *v1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 1}
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Spec.ActiveDeadlineSeconds = new(int64(600))
		}
		fleet := func(kind string) (pods []*v1.Pod) {
			for i, c := range []string{"job", "crash", "web"} {
				for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
					pods = append(pods, nodetest.Pod(fmt.Sprintf("%s-gone-%d-%s", kind, i, strings.ToLower(string(policy))), nodetest.Container(c), probe, nodetest.RestartPolicy(policy)))
				}
			}
			refused := nodetest.Pod(kind+"-gone-refused", nodetest.Container("c"))
			refused.Spec.NodeSelector = map[string]string{"no": "such"}
			return append(pods, refused)
		}
		n.Apply(fleet("static")...)
		var bound []*v1.Pod
		for _, p := range fleet("api") {
			bound = append(bound, n.Bind(p))
		}
		time.Sleep(3 * time.Minute)
		down, err := n.World.Inject(fake.Fault{Err: errors.New("connection refused"), For: 20 * time.Second})
		require.NoError(t, err)
		defer down.Clear()
		time.Sleep(3 * time.Minute)
		n.Apply()
		for _, p := range bound {
			_, err := server.Delete(p.UID)
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		n.Settle()
		require.Empty(t, n.Agent.Pods())
		require.Empty(t, remembered(n.Agent, "-gone-"))
	})
}

// remembered lists the maps reachable from an agent with a key or value that contains text.
func remembered(agent *node.Agent, text string) (paths []string) {
	seen := make(map[any]bool)
	var walk func(path string, v reflect.Value, in bool)
	walk = func(path string, v reflect.Value, in bool) {
		switch v.Kind() {
		case reflect.String:
			if in && strings.Contains(v.String(), text) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		case reflect.Pointer:
			if key := [2]any{v.Type(), v.Pointer()}; !v.IsNil() && !seen[key] {
				seen[key] = true
				walk(path, v.Elem(), in)
			}
		case reflect.Interface:
			walk(path, v.Elem(), in)
		case reflect.Struct:
			if slices.Contains([]string{"fake", "nodetest", "statustest"}, gopath.Base(v.Type().PkgPath())) {
				return // the world outside
			}
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i), in)
			}
		case reflect.Map:
			for k, e := range v.Seq2() {
				walk(path, k, true)
				walk(path, e, true)
			}
		case reflect.Slice, reflect.Array:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return
			}
			for i := range v.Len() {
				walk(path, v.Index(i), true)
			}
		}
	}
	walk("agent", reflect.ValueOf(agent), false)
	return paths
}
