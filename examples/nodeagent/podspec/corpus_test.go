// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podspec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/kinds"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// TestCorpus checks the outcome of manifests of popular programs and of tutorials on each backend:
// testdata/corpus/NAME.want has the pods and objects of NAME.yaml, or the reason why the manifest or a pod
// is refused. Security contexts are left out of the check of pods. -rewrite writes the outcomes anew.
func TestCorpus(t *testing.T) {
	b := newBackends(t)
	processes, err := process.New(process.Options{Root: filepath.Join(t.TempDir(), "p"), HostIPs: []string{"192.0.2.1"}})
	require.NoError(t, err)
	nodes := []struct {
		name            string
		onlyHostNetwork bool
		runtime         runtime.Runtime
	}{{"containerd", false, b.cri[b.plain]}, {"process", true, processes}}
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	require.NoError(t, err)
	counts := map[string]int{}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		source, _, _ := strings.Cut(name, "-")
		counts[source]++
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			var out strings.Builder
			for _, n := range nodes {
				x := &kinds.Expander{NodeLabels: map[string]string{v1.LabelOSStable: "linux"}, Decoder: &manifest.Decoder{
					NodeName: "n", Strict: true, OnlyHostNetwork: n.onlyHostNetwork,
					Policy: func(pod *v1.Pod) error { return manifest.NoAPIReferences(kinds.WithoutObjects(pod)) },
				}}
				fmt.Fprintf(&out, "%s:\n", n.name)
				set, err := x.Expand(data, manifest.Origin{Kind: manifest.OriginFile, Location: "/m/" + name + ".yaml"})
				if err != nil {
					fmt.Fprintf(&out, "  refused %s:%s\n", name, err)
					continue
				}
				describeSet(t, &out, n.runtime, set)
			}
			want := strings.TrimSuffix(path, ".yaml") + ".want"
			if *rewrite {
				require.NoError(t, os.WriteFile(want, []byte(out.String()), 0o644))
			}
			text, err := os.ReadFile(want)
			require.NoError(t, err)
			assert.Equal(t, string(text), out.String())
		})
	}
	assert.GreaterOrEqual(t, counts["popular"], 15)
	assert.GreaterOrEqual(t, counts["tutorial"], 20)
}

func describeSet(t *testing.T, out *strings.Builder, rt runtime.Runtime, set *kinds.Set) {
	t.Helper()
	pod := func(kind string, p *v1.Pod) {
		fmt.Fprintf(out, "  %s %s", kind, p.Name)
		// The user and the kernel of the test decide about security contexts on the process backend.
		plain := p.DeepCopy()
		plain.Spec.SecurityContext = nil
		for i := range plain.Spec.Containers {
			plain.Spec.Containers[i].SecurityContext = nil
		}
		if err := checks(t, rt, plain); err != nil {
			require.ErrorIs(t, err, runtime.ErrUnsupported)
			fmt.Fprintf(out, ": refused: %s", err)
		}
		out.WriteString("\n")
	}
	for _, p := range set.Pods {
		pod("pod", p)
	}
	for _, j := range set.Jobs {
		pod("job", j.Pod)
	}
	for _, c := range set.CronJobs {
		pod("cronjob", c.Job.Pod)
	}
	for _, c := range set.ConfigMaps {
		fmt.Fprintf(out, "  configmap %s\n", c.Name)
	}
	for _, s := range set.Secrets {
		fmt.Fprintf(out, "  secret %s\n", s.Name)
	}
	for _, c := range set.Claims {
		fmt.Fprintf(out, "  claim %s\n", c.Name)
	}
	for _, s := range set.Services {
		fmt.Fprintf(out, "  service %s\n", s.Name)
	}
	for _, n := range set.Notices {
		fmt.Fprintf(out, "  notice %s\n", n)
	}
}
