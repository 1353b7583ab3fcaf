// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/keelson-dev/keelson"

// parts are the packages that never import one another, nor one another's
// sub-packages.
var parts = []string{
	"podconfig", "podworkers", "runtime", "prober", "volumemanager", "imagegc", "statusmanager",
}

// maxPackages is how many packages of other modules a part may compile, beside
// the standard library.
const maxPackages = 78

// shimPackage needs golang.org/x/sys/unix and no other package of another module.
const shimPackage = "runtime/process/shim"

// partImports are the import paths, with everything below them, that a part
// itself may name, beside the standard library. A line more needs its reason
// here and in go.mod.
var partImports = []string{
	"k8s.io/api",
	"k8s.io/apimachinery",
	"go.uber.org/zap",
	module + "/internal",
}

// homes says which library packages, with what is below them, may compile a
// heavy dependency. Patterns are path.Match's, relative to the module.
// Everybody else must be able to do without.
var homes = map[string][]string{
	"k8s.io/client-go":                  {"podconfig/podwatch", "runtime/services", "statusmanager/statuspatch", "volumemanager/volumeapi"},
	"k8s.io/cri-api":                    {"runtime/cri"},
	"google.golang.org/grpc":            {"runtime/cri", "prober/handlers", "volumemanager/plugins/csi"},
	"github.com/fsnotify/fsnotify":      {"podconfig/file"},
	"github.com/prometheus":             {},
	"github.com/opencontainers/cgroups": {},
	typedClients:                        {},
}

// typedClients have a scheme with the types of all API groups: 10 MB of a program. Libraries and the
// node agent use internal/kubeclient.
const typedClients = "k8s.io/client-go/kubernetes"

// unwanted are imports that no package of the module may name, with the reason.
var unwanted = map[string]string{
	"k8s.io/kubernetes": "it is no library: its own requirements are v0.0.0",
	"k8s.io/klog":       "logs go to the zap logger the caller gave",
}

// clientsets are packages of client-go with the clients of all API groups. Nor may a test import them:
// make test would compile 150 packages more.
var clientsets = map[string]string{
	typedClients:           "a program gets the clients of all API groups, use kubernetes/typed",
	typedClients + "/fake": "tests compile the clients of all API groups, use internal/clienttest",
}

// klogOwner is the only package that imports klog: a program, which sets the global destination of
// what packages of Kubernetes log.
const klogOwner = "examples/nodeagent"

// unwantedInLibraries are imports that no library package may name, with the
// reason.
var unwantedInLibraries = map[string]string{
	"k8s.io/apimachinery/pkg/util/wait":    "it logs through klog and recovers from panics",
	"k8s.io/apimachinery/pkg/util/runtime": "it logs through klog and recovers from panics",
}

// TestArrows reads the import graph of the module, for each system that the
// module is built for, and reports every import that points the wrong way.
func TestArrows(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		t.Run(system, func(t *testing.T) {
			g := listPackages(t, system)
			require.Contains(t, g, module, "the graph must have been read")
			for _, broken := range brokenArrows(g) {
				t.Error(broken)
			}
		})
	}
}

// listPackages asks the go command for every package of the module and all that
// they need. A package that does not compile is listed, too: that is for others
// to report.
func listPackages(t *testing.T, system string) graph {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps",
		"-json=ImportPath,Standard,Imports,TestImports,XTestImports", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list: %s", stderr.String())

	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(node)
		err := dec.Decode(p)
		if errors.Is(err, io.EOF) {
			return g
		}
		require.NoError(t, err)
		g[p.ImportPath] = p
	}
}

// node is what the go command says of one package.
type node struct {
	ImportPath                         string
	Standard                           bool
	Imports, TestImports, XTestImports []string
}

// graph is every package by its import path.
type graph map[string]*node

// below reports whether p is prefix or something under it.
func below(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

// relative returns the path of p within the module.
func relative(p string) (string, bool) {
	if p == module {
		return "", true
	}
	return strings.CutPrefix(p, module+"/")
}

// part returns which of the parts p belongs to, or "".
func part(p string) string {
	rel, _ := relative(p)
	first, _, _ := strings.Cut(rel, "/")
	if slices.Contains(parts, first) {
		return first
	}
	return ""
}

// isLibrary reports whether p is for others to import: everything of the module
// but the examples and the end-to-end tests.
func isLibrary(p string) bool {
	rel, ours := relative(p)
	return ours && !below(rel, "examples") && !below(rel, "e2e")
}

// chain returns the shortest way along non-standard imports from one of the
// imports of from to a package that is bad, both ends included; nil if there is
// none.
func (g graph) chain(from string, imports []string, bad func(string) bool) []string {
	before := map[string]string{}
	var queue []string
	visit := func(p, parent string) {
		if n := g[p]; p == from || n != nil && n.Standard {
			return
		}
		if _, seen := before[p]; !seen {
			before[p] = parent
			queue = append(queue, p)
		}
	}
	for _, p := range imports {
		visit(p, from)
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if bad(p) {
			way := []string{p}
			for p != from {
				p = before[p]
				way = append(way, p)
			}
			slices.Reverse(way)
			return way
		}
		if n := g[p]; n != nil {
			for _, q := range n.Imports {
				visit(q, p)
			}
		}
	}
	return nil
}

// weight counts the packages of other modules that p compiles, beside the
// standard library.
func (g graph) weight(p *node) int {
	n := 0
	g.chain(p.ImportPath, p.Imports, func(q string) bool {
		if _, ours := relative(q); !ours {
			n++
		}
		return false
	})
	return n
}

// brokenArrows returns one line for everything in g that points the wrong way.
func brokenArrows(g graph) []string {
	var out []string
	report := func(format string, args ...any) {
		out = append(out, strings.ReplaceAll(fmt.Sprintf(format, args...), module+"/", ""))
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		p := g[name]
		rel, ours := relative(name)
		if !ours || p.Standard {
			continue
		}
		tests := slices.Concat(p.TestImports, p.XTestImports)
		for _, imp := range slices.Concat(p.Imports, tests) {
			for prefix, why := range unwanted {
				if below(imp, prefix) && (rel != klogOwner || prefix != "k8s.io/klog") {
					report("%s imports %s: %s", name, imp, why)
				}
			}
			if why := clientsets[imp]; why != "" {
				report("%s imports %s: %s", name, imp, why)
			}
		}
		if rel == "" && len(p.Imports) > 0 {
			report("the root package is a tour and imports nothing, but it imports %v", p.Imports)
		}
		if !isLibrary(name) {
			way := g.chain(name, p.Imports, func(q string) bool { return below(q, typedClients) })
			if rel == klogOwner && way != nil {
				report("the node agent links the types of all API groups: %s", strings.Join(way, " -> "))
			}
			continue
		}
		checkLibrary(g, p, rel, tests, report)
		if own := part(name); own == rel && own != "" {
			checkPart(g, p, tests, report)
		}
	}
	return out
}

// checkLibrary checks what holds for every package others may import.
func checkLibrary(g graph, p *node, rel string, tests []string, report func(string, ...any)) {
	own := part(p.ImportPath)
	foreign := func(q string) bool {
		if other := part(q); own != "" && other != "" && other != own {
			return true
		}
		_, ours := relative(q)
		return ours && !isLibrary(q)
	}
	if way := g.chain(p.ImportPath, p.Imports, foreign); way != nil {
		report("broken arrow: %s", strings.Join(way, " -> "))
	}
	// The root package's own tests are about the whole module.
	if way := g.chain(p.ImportPath, tests, foreign); way != nil && rel != "" {
		report("broken arrow in a test: %s", strings.Join(way, " -> "))
	}
	for _, imp := range p.Imports {
		for prefix, why := range unwantedInLibraries {
			if below(imp, prefix) {
				report("%s imports %s: %s", p.ImportPath, imp, why)
			}
		}
	}
	if n := g.weight(p); rel == shimPackage && n > 1 {
		report("%s compiles %d packages of other modules: each container would initialize them", p.ImportPath, n)
	}
	if below(rel, "internal") {
		return // what it compiles counts for those who import it
	}
	for _, heavy := range slices.Sorted(maps.Keys(homes)) {
		if slices.ContainsFunc(homes[heavy], func(home string) bool { return atHome(rel, home) }) {
			continue
		}
		way := g.chain(p.ImportPath, p.Imports, func(q string) bool { return below(q, heavy) })
		if way != nil {
			report("%s is kept out of %s: %s", heavy, p.ImportPath, strings.Join(way, " -> "))
		}
	}
}

// atHome reports whether rel is what the pattern home matches or below it.
func atHome(rel, home string) bool {
	for ; rel != "."; rel = path.Dir(rel) {
		if ok, err := path.Match(home, rel); ok && err == nil {
			return true
		}
	}
	return false
}

// checkPart checks what holds for the seven themselves, not their sub-packages.
func checkPart(g graph, p *node, tests []string, report func(string, ...any)) {
	if n := g.weight(p); n > maxPackages {
		report("%s compiles %d packages of other modules, at most %d are allowed", p.ImportPath, n, maxPackages)
	}
	own := part(p.ImportPath)
	outside := func(imp string, more ...string) bool {
		if n := g[imp]; n != nil && n.Standard {
			return false
		}
		if other := part(imp); other != "" && other != own {
			return false // a broken arrow, reported as such
		}
		// Packages that only tests import are not in the graph: the standard
		// library's have no dot in their first element.
		if first, _, _ := strings.Cut(imp, "/"); g[imp] == nil && !strings.Contains(first, ".") {
			return false
		}
		return !slices.ContainsFunc(append(more, partImports...), func(ok string) bool { return below(imp, ok) })
	}
	for _, imp := range p.Imports {
		if outside(imp) {
			report("%s imports %s: a part imports only std, %s", p.ImportPath, imp, strings.Join(partImports, ", "))
		}
	}
	for _, imp := range tests {
		if outside(imp, "github.com/stretchr/testify", module+"/"+own) {
			report("a test of %s imports %s: beside what the part may import, only testify and the part's own packages", p.ImportPath, imp)
		}
	}
}

// TestBrokenArrowsAreSeen shows the check a small module with one fault each.
func TestBrokenArrowsAreSeen(t *testing.T) {
	api := &node{ImportPath: "k8s.io/api/core/v1", Imports: []string{"fmt"}}
	std := &node{ImportPath: "fmt", Standard: true, Imports: []string{"internal/fmtsort"}}
	at := func(rel string, imports ...string) *node {
		return &node{ImportPath: module + "/" + rel, Imports: imports}
	}
	lib := func(p string, imports ...string) *node { return &node{ImportPath: p, Imports: imports} }
	of := func(nodes ...*node) graph {
		g := graph{api.ImportPath: api, std.ImportPath: std}
		for _, n := range nodes {
			g[n.ImportPath] = n
		}
		return g
	}
	many, all := []*node{}, []string{}
	for i := range maxPackages + 1 {
		n := lib(fmt.Sprintf("k8s.io/api/p%d", i))
		many, all = append(many, n), append(all, n.ImportPath)
	}
	testOf := func(n *node, imports ...string) *node { n.XTestImports = imports; return n }

	tests := []struct {
		name string
		g    graph
		want string // "" = nothing broken
	}{
		{"clean", of(at("runtime", "fmt", api.ImportPath), at("runtime/fake", module+"/runtime"),
			at("examples/nodeagent", module+"/runtime", module+"/podconfig", "k8s.io/client-go/rest"),
			at("podconfig/file", "github.com/fsnotify/fsnotify"), at("podconfig/podwatch/deep", "k8s.io/client-go/rest")), ""},
		{"part to part", of(at("podworkers", module+"/runtime"), at("runtime")),
			"podworkers -> runtime"},
		{"part to sub-package", of(at("podworkers", module+"/runtime/fake"), at("runtime/fake")),
			"podworkers -> runtime/fake"},
		{"sub-package to another part", of(at("podconfig/file", module+"/runtime"), at("runtime")),
			"podconfig/file -> runtime"},
		{"by way of internal", of(at("prober", module+"/internal/x"), at("internal/x", module+"/imagegc"), at("imagegc")),
			"prober -> internal/x -> imagegc"},
		{"in a test", of(testOf(at("podworkers"), module+"/runtime/fake"), at("runtime/fake")),
			"broken arrow in a test: podworkers -> runtime/fake"},
		{"library to example", of(at("runtime/fake", module+"/examples/nodeagent"), at("examples/nodeagent")),
			"runtime/fake -> examples/nodeagent"},
		{"typed clients in the agent", of(at("examples/nodeagent", module+"/examples/nodeagent/nodeserver"), at("examples/nodeagent/nodeserver", "k8s.io/client-go/kubernetes/typed/core/v1")),
			"the node agent links the types of all API groups: examples/nodeagent -> examples/nodeagent/nodeserver -> k8s.io/client-go/kubernetes/typed/core/v1"},
		{"client-go in a sub-package's back", of(at("runtime/fake", "k8s.io/kubectl/x"), lib("k8s.io/kubectl/x", "k8s.io/client-go/rest")),
			"k8s.io/client-go is kept out of runtime/fake: runtime/fake -> k8s.io/kubectl/x -> k8s.io/client-go/rest"},
		{"grpc in internal", of(at("internal/x", "google.golang.org/grpc")), ""},
		{"grpc by way of internal", of(at("internal/x", "google.golang.org/grpc"), at("runtime/process", module+"/internal/x")),
			"google.golang.org/grpc is kept out of runtime/process: runtime/process -> internal/x"},
		{"fsnotify away from home", of(at("podconfig/url", "github.com/fsnotify/fsnotify")),
			"github.com/fsnotify/fsnotify is kept out of podconfig/url"},
		{"prometheus", of(at("runtime/cri", "github.com/prometheus/client_golang/prometheus")),
			"github.com/prometheus is kept out of runtime/cri"},
		{"part names a library", of(at("imagegc", "sigs.k8s.io/yaml")),
			"imagegc imports sigs.k8s.io/yaml: a part imports only std"},
		{"part names its sub-package", of(at("runtime", module+"/runtime/podstatus"), at("runtime/podstatus")),
			"runtime imports runtime/podstatus: a part imports only std"},
		{"a part's test names a library", of(testOf(at("imagegc"), "testing", "github.com/onsi/gomega")),
			"a test of imagegc imports github.com/onsi/gomega"},
		{"too heavy", of(append(many, at("statusmanager", all...))...),
			"statusmanager compiles 79 packages of other modules"},
		{"heavy shim", of(at(shimPackage, "golang.org/x/sys/unix", api.ImportPath), lib("golang.org/x/sys/unix")),
			"runtime/process/shim compiles 2 packages of other modules"},
		{"klog", of(at("examples/nodeagent/node", "k8s.io/klog/v2")),
			"examples/nodeagent/node imports k8s.io/klog/v2"},
		{"klog in a test", of(testOf(at("runtime/process"), "k8s.io/klog/v2")),
			"runtime/process imports k8s.io/klog/v2"},
		{"kubernetes", of(at("runtime/process", "k8s.io/kubernetes/pkg/kubelet")),
			"runtime/process imports k8s.io/kubernetes/pkg/kubelet"},
		{"clientset", of(at("examples/simulation/fleet", typedClients)),
			"examples/simulation/fleet imports k8s.io/client-go/kubernetes: a program gets the clients of all API groups"},
		{"clientset in a test", of(testOf(at("podconfig/podwatch"), typedClients)),
			"podconfig/podwatch imports k8s.io/client-go/kubernetes: a program gets"},
		{"fake clientset in a test", of(testOf(at("volumemanager/volumeapi"), typedClients+"/fake")),
			"volumemanager/volumeapi imports k8s.io/client-go/kubernetes/fake: tests compile the clients of all API groups"},
		{"clients of a group in a test", of(testOf(at("podconfig/podwatch"), typedClients+"/typed/core/v1", typedClients+"/typed/core/v1/fake", typedClients+"/scheme")), ""},
		{"wait", of(at("podconfig/file", "k8s.io/apimachinery/pkg/util/wait")),
			"podconfig/file imports k8s.io/apimachinery/pkg/util/wait"},
		{"tour imports", of(lib(module, "fmt")), "the root package is a tour"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := brokenArrows(tc.g)
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assert.Contains(t, got[0], tc.want)
		})
	}
}
