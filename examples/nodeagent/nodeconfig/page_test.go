// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write docs/kubeletconfig.md anew")

const page = "../../../docs/kubeletconfig.md"

const pageHead = `# The kubelet's configuration file

` + "`nodeagent --config FILE`" + ` reads a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), as kubeadm writes it to /var/lib/kubelet/config.yaml. ` + "`--config-dir FOLDER`" + ` adds the files ` + "`*.conf`" + ` below a folder, in the
order of their paths, each merged as a JSON merge patch. A flag on the command line overrides the files. A value that is not supported is an error at the start, with file, line and field. Zero values, which kubeadm
writes for every field, count as none. Unknown fields are logged.

With shutdown grace periods the file also sets ` + "`--keep-pods`" + `, unless the command line does: the pods are stopped when systemd shuts the machine down, and kept when only the agent stops.

This page is written by ` + "`make docs`" + ` from examples/nodeagent/nodeconfig/fields.txt. A test compares the fields with the type in k8s.io/kubelet.

| field | |
|---|---|
`

// TestKubeletConfigTable compares docs/kubeletconfig.md with fields.txt. With -rewrite it writes the page.
func TestKubeletConfigTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, f := range fields() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.path, describe(f))
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "run make docs")
}

func describe(f field) string {
	switch {
	case f.rule == ruleIgnore:
		return "accepted without effect, logged: " + f.reason
	case f.rule == ruleOnly && len(f.allowed) == 0:
		return "refused if set"
	case f.rule == ruleOnly:
		return "only `" + strings.Join(f.allowed, "` or `") + "`"
	case f.unset != "":
		return fmt.Sprintf("`--%s`; without the field `%s`", f.flag, f.unset)
	}
	return fmt.Sprintf("`--%s`", f.flag)
}

// Each line of fields.txt has a kind and a rule that exist, and what the rule needs.
func TestFieldsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range fields() {
		assert.False(t, seen[f.path], "%s stands twice", f.path)
		seen[f.path] = true
		assert.Contains(t, []string{"bool", "int", "float", "duration", "string", "list", "map", "objects", "object"}, f.kind, f.path)
		assert.Contains(t, []rule{ruleFlag, rulePath, ruleHeaders, ruleTaints, rulePriorities, ruleThresholds, ruleOnly, ruleIgnore}, f.rule, f.path)
		assert.Equal(t, f.rule == ruleIgnore, f.reason != "", f.path)
		assert.Equal(t, f.rule != ruleOnly && f.rule != ruleIgnore, f.flag != "", f.path)
		for _, a := range f.allowed {
			if f.kind == "duration" {
				_, err := time.ParseDuration(a)
				assert.NoError(t, err, f.path)
			}
		}
	}
	require.Greater(t, len(seen), 120)
}
