// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
)

var rewrite = flag.Bool("rewrite", false, "write docs/podspec.md anew")

const podspecFile = "../../../docs/podspec.md"

// podspecSection is a chapter of docs/podspec.md.
type podspecSection struct {
	title string
	rows  []podField
}

var podspecSections = []podspecSection{
	{"Containers", containerFields},
	{"Probes and lifecycle hooks", probeFields},
	{"Pods", podFields},
	{"Security contexts", securityFields},
	{"Volumes", volumeFields},
}

// TestPodSpecTable determines the effect of every field on every backend, and fails if docs/podspec.md
// differs. With -rewrite it writes the page.
func TestPodSpecTable(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("the table is Linux's")
	}
	if casetest.Raced {
		t.Skip("asks one field after the other; make rounds plays it")
	}
	nodes := newBackends(t)
	var out strings.Builder
	out.WriteString(podspecHead)
	for _, section := range podspecSections {
		fmt.Fprintf(&out, "\n## %s\n\n| field | process | cri | fake | by | seen in | |\n|---|---|---|---|---|---|---|\n", section.title)
		for _, row := range section.rows {
			c := nodes.ask(t, row)
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
				row.path, c.process, c.cri, c.fake, doneBy(row, c), strings.ReplaceAll(testLinks(row.seen), "|", "\\|"), row.note)
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(podspecFile, []byte(out.String()), 0o644))
	}
	have, err := os.ReadFile(podspecFile)
	require.NoError(t, err)
	assert.Equal(t, out.String(), string(have), "make docs writes docs/podspec.md anew")
}

// TestPodSpecIsClassified fails if the fields of the API and of the table differ.
func TestPodSpecIsClassified(t *testing.T) {
	rows := map[string]int{}
	for _, section := range podspecSections {
		for _, row := range section.rows {
			for _, path := range expandBraces(row.path) {
				rows[path]++
			}
		}
	}
	found := map[string]bool{}
	eachField("", reflect.TypeFor[v1.PodSpec](), rows, func(path string) { found[path] = true })
	for path := range found {
		assert.Equal(t, 1, rows[path], "rows for spec.%s: say in fields_test.go or podfields_test.go who honours it", path)
	}
	for path := range rows {
		assert.True(t, found[path], "the API has no spec.%s", path)
	}
}

// eachField visits each field of a type once. The three lists of containers count as a single list;
// likewise the kinds of probes and of hooks. The fields of a struct are skipped if the struct has a row
// itself, a row with a *, or its own JSON encoding.
func eachField(path string, typ reflect.Type, rows map[string]int, visit func(string)) {
	for {
		if typ.Kind() == reflect.Slice && typ.Elem().Kind() != reflect.Uint8 {
			path += "[]"
		} else if typ.Kind() != reflect.Pointer {
			break
		}
		typ = typ.Elem()
	}
	if rows[path+".*"] > 0 {
		visit(path + ".*")
		return
	}
	opaque := slices.Contains([]string{"Quantity", "IntOrString", "LabelSelector", "PersistentVolumeClaimTemplate"}, typ.Name())
	if typ.Kind() != reflect.Struct || opaque {
		visit(path)
		return
	}
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		if name == "" { // embedded
			at = path
		}
		for _, alias := range podspecAliases {
			at = alias.all.ReplaceAllString(at, alias.one)
		}
		eachField(at, typ.Field(i).Type, rows, visit)
	}
}

var podspecAliases = []struct {
	all *regexp.Regexp
	one string
}{
	{regexp.MustCompile(`^(initContainers|ephemeralContainers)\b`), "containers"},
	{regexp.MustCompile(`^containers\[\]\.(liveness|readiness|startup)Probe\b`), "containers[].probe"},
	{regexp.MustCompile(`^containers\[\]\.lifecycle\.(postStart|preStop)\b`), "containers[].lifecycle.hook"},
}

// expandBraces expands a{b,c}d to abd and acd.
func expandBraces(s string) []string {
	open := strings.IndexByte(s, '{')
	if open < 0 {
		return []string{s}
	}
	end := open + strings.IndexByte(s[open:], '}')
	var out []string
	for _, rest := range expandBraces(s[end+1:]) {
		for alternative := range strings.SplitSeq(s[open+1:end], ",") {
			out = append(out, s[:open]+alternative+rest)
		}
	}
	return out
}

func TestExpandBraces(t *testing.T) {
	assert.Equal(t, []string{"a"}, expandBraces("a"))
	assert.ElementsMatch(t, []string{"xa.c", "xa.d", "x.c", "x.d"}, expandBraces("x{a,}.{c,d}"))
}

// doneBy returns the column "by": the package or component that honours the field.
func doneBy(row podField, c cells) string {
	switch {
	case row.by == byCluster:
		return "cluster"
	case row.by != byBackend && row.by != byNobody:
		return "`" + row.by + "`"
	case row.by == byBackend && (c.process == yes || strings.HasPrefix(c.cri, yes)):
		return "backend"
	default:
		return "unsupported"
	}
}

// testLinks formats "dir TestX, dir TestY" for the page.
func testLinks(seen string) string {
	var out []string
	for test := range strings.SplitSeq(seen, ", ") {
		if dir, name, ok := strings.Cut(test, " "); ok {
			out = append(out, fmt.Sprintf("`%s` %s", dir, name))
		}
	}
	return strings.Join(out, ", ")
}

const podspecHead = `# Supported fields of a pod

Generated by ` + "`make docs`" + ` (examples/nodeagent/podspec); do not edit. The page lists every field of v1.PodSpec in the k8s.io/api version of go.mod; a test checks the list.

The page shows the effect of each field on the three backends, in the reference agent (examples/nodeagent) with default options and manifests from a folder. Each cell is the result of a test: pods
with and without the field are passed to the backend's CheckPod, to its RunSandbox and CreateContainer, and to an agent.

| cell | meaning |
|---|---|
| yes | honoured: the runtime's input or the process's record depends on the field, or the package in the column *by* honours the field on every backend |
| yes, if able | honoured if the CRI runtime (and its version) and cri.Options, or the kernel under the process backend, support the field; else refused |
| checked | the agent admits the pod only if the node meets the field |
| always | the behaviour is the same with and without the field |
| if not root | honoured if the agent does not run as root; else refused |
| if held | honoured if the agent has the capability; else refused |
| refused | a pod with the field does not run: it is Failed, with a message that lists every refused field |
| spec | passed to the fake's scripts, without other effect |
| no effect | accepted and ignored |
| – | not for a node: the field is for scheduler, controllers and API server |
| unsupported | in the column *by*: no package honours the field |

` + "`containers[]`" + ` also stands for initContainers[] and ephemeralContainers[], ` + "`probe`" + ` for livenessProbe, readinessProbe and startupProbe, ` + "`hook`" + ` for postStart and
preStop, and ` + "`*`" + ` for all fields below. Manifests of static pods are validated first (package podconfig/manifest), as in an API server. The validation refuses more fields than this page, for
instance ephemeralContainers, resourceClaims and schedulingGates. References of static pods to objects of an API server (ConfigMaps, Secrets, claims, service accounts) are also refused, unless the node
has the object: manifest.NoAPIReferences is the decoder's default.
`
