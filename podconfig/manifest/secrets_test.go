// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// Errors and warnings never contain values that may be secret. Each place of a value is combined
// with each fault.
func TestErrorsHoldNoSecretValues(t *testing.T) {
	const secret = "hush"
	places := []string{
		"{name: web, annotations: {a: %[1]s}}", // metadata
		"env: [{name: A, value: %s}]", "args: [%s]", "command: [%s]", "livenessProbe: {exec: {command: [%s]}}",
		"livenessProbe: {httpGet: {port: 1, httpHeaders: [{name: A, value: %s}]}}",
		"lifecycle: {preStop: {exec: {command: [sh, -c, %s]}}}", "unknown: %s", "env: [{name: A, valu: %s}]", "env: %s", "args: %s",
	}
	values := []string{
		"hush", `"hush\0hush"`, `"hush\r\nhush"`, "[hush]", "{hush: hush}", "!!int hush", "!!binary hush=", "*hush", "'hush",
		`"hush`, "{? [hush]}", "{? {? hush}}", "hush: hush: hush", "`hush`", "!<tag> hush", "{hush", "!!float hush", "!!timestamp hush", "!!null hush",
	}
	faults := []string{"", "image: 5", "image: b", "x: y", "ports: [{}]", "\tbad"}
	tried := 0
	for i, place := range places {
		for _, value := range values {
			for _, fault := range faults {
				metadata, field := "{name: web}", fmt.Sprintf(strings.ReplaceAll(place, "[1]", ""), value)
				if i == 0 {
					metadata, field = field, "x: y"
				}
				text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: %s\nspec:\n  containers:\n  - name: a\n    image: i\n    %s\n    %s\n",
					metadata, field, fault)
				d := strict()
				d.Strict = tried%2 == 0
				d.Warn = func(_ manifest.Origin, w string) { assert.NotContains(t, w, secret, text) }
				if _, err := d.Pod([]byte(text), origin); err != nil {
					// The names of anchors, tags and keys are not values.
					if !strings.ContainsAny(value, "*:") && !strings.Contains(value, "{hush") {
						assert.NotContains(t, err.Error(), secret, text)
					}
					assert.NotContains(t, err.Error(), "\n")
				}
				tried++
			}
		}
	}
	assert.Equal(t, len(places)*len(values)*len(faults), tried)
}
