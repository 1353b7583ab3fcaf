// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxParts is the greatest size of the parts and of their assembly, in lines of code. Lower the number
// after a deletion.
const maxParts = 55_200

// sizes are the kinds of code beside the parts and their assembly, by the beginnings of paths. A test
// harness is a package that only tests and development need.
var sizes = map[string][]string{
	"harness": {
		"e2e", "tools", "examples/nodeagent/nodetest", "runtime/fake", "internal/apiproxy", "internal/benchnode", "internal/clienttest", "internal/conformance",
		"internal/contexttest", "internal/criproxy", "internal/faults", "internal/powercut", "internal/soak", "internal/testneed", "internal/testport",
	},
	"server, identity, configuration, statistics": {
		"examples/nodeagent/nodeserver", "examples/nodeagent/nodeidentity", "examples/nodeagent/nodeconfig", "examples/nodeagent/nodestats",
		"examples/nodeagent/internal", "examples/nodeagent/node/loglinks", "internal/diskuse", "internal/kernelfile", "internal/kubeclient", "runtime/stats", "runtime/credentialplugin", "runtime/pullrecords",
		"runtime/cri/stats", "runtime/cri/memoryqos.go", "runtime/cri/checkpoint.go", "runtime/cri/handlers.go", "runtime/process/stats", "runtime/internal/proc/usage",
	},
	"simulation":                 {"examples/simulation"},
	"local API, updates, kinds":  {"examples/nodeagent/localapi", "examples/nodeagent/node/updates", "examples/nodeagent/node/podsapi", "podconfig/kinds"},
	"cgroups, eviction, devices": {"examples/nodeagent/node/cgroups", "examples/nodeagent/node/eviction", "examples/nodeagent/node/pressure", "examples/nodeagent/node/devices", "examples/nodeagent/node/hotplug", "examples/nodeagent/node/hostneeds"},
	"walls, images without an engine": {
		"runtime/process/internal/walls", "runtime/process/internal/stage", "runtime/process/confine", "runtime/process/checksecurity", "runtime/process/image", "runtime/imagearchive",
	},
	"networks of pods":               {"runtime/process/internal/pasta", "runtime/process/network", "runtime/process/internal/stage/network", "runtime/process/shim/network"},
	"starts without a program of Go": {"runtime/process/internal/tiny", "runtime/process/internal/doze", "runtime/process/internal/ending", "runtime/process/bear"},
	"an agent on a message bus":      {"examples/natsagent/"}, // a program in a module of its own
	"the program's wiring":           {"examples/nodeagent/"}, // files that are in none of the rows above
	"the assembly":                   {"examples/nodeagent/node/", "examples/nodeagent/nodestatus/"},
}

// TestTheSizeOfTheParts counts the lines of code that are neither blank nor comments. With -v the test
// prints the size of each kind.
func TestTheSizeOfTheParts(t *testing.T) {
	total := map[string]int{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "bin", "dist", ".git"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		total[kindOfCode(path)] += linesOfCode(src)
		return nil
	}))
	for _, kind := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%6d %s", total[kind], kind)
	}
	for kind := range sizes {
		assert.NotZero(t, total[kind], "%s: the folders have moved", kind)
	}
	assert.LessOrEqual(t, total["the parts"]+total["the assembly"], maxParts, "delete before adding, or give a new capability a folder of its own and a row in sizes")
}

// kindOfCode returns the kind with the longest beginning of the path. Packages whose names end in
// "test" are harness.
func kindOfCode(path string) string {
	if strings.HasSuffix(filepath.Dir(path), "test") {
		return "harness"
	}
	kind, longest := "the parts", ""
	for name, beginnings := range sizes {
		for _, beginning := range beginnings {
			if len(beginning) > len(longest) && strings.HasPrefix(path, beginning) {
				kind, longest = name, beginning
			}
		}
	}
	return kind
}
