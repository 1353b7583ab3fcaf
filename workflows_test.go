// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// workflow is the part of a GitHub workflow that the rules below are about.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		TimeoutMinutes int `json:"timeout-minutes"`
		Strategy       struct{ Matrix map[string][]string }
		Steps          []struct{ Uses, Run string }
	}
}

var (
	makeCommand  = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*|\$\{\{ matrix\.target \}\})`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@(v[0-9]+|[0-9a-f]{40})$`)
)

// TestWorkflows checks that each workflow calls targets of the Makefile and
// scripts that exist, has a time limit, pins its actions and may only read.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	files, err := filepath.Glob(".github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	called := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal(data, &w), file)
		assert.Equal(t, map[string]string{"contents": "read"}, w.Permissions, file)
		require.NotEmpty(t, w.Jobs, file)
		for name, job := range w.Jobs {
			assert.NotZero(t, job.TimeoutMinutes, "%s: job %s has no time limit", file, name)
			for _, step := range job.Steps {
				if step.Uses != "" {
					assert.Regexp(t, pinnedAction, step.Uses, "%s: job %s", file, name)
				}
				if script := strings.Fields(step.Run); len(script) > 0 && strings.HasPrefix(script[0], ".ci/") {
					assert.FileExists(t, script[0], "%s: job %s", file, name)
					called[script[0]] = true
				}
				for _, m := range makeCommand.FindAllStringSubmatch(step.Run, -1) {
					wanted := []string{m[1]}
					if strings.HasPrefix(m[1], "$") {
						wanted = job.Strategy.Matrix["target"]
						require.NotEmpty(t, wanted, "%s: job %s has no matrix of targets", file, name)
					}
					for _, target := range wanted {
						target, _, _ = strings.Cut(target, " ")
						assert.True(t, targets[target], "%s: job %s: the Makefile has no target %q", file, name, target)
					}
				}
			}
		}
	}
	assert.True(t, called[".ci/run"], "no workflow runs what a change must pass")
}

// TestDependabotKnowsEachModule checks that the requirements of every go.mod are
// kept up to date.
func TestDependabotKnowsEachModule(t *testing.T) {
	data, err := os.ReadFile(".github/dependabot.yml")
	require.NoError(t, err)
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &config))
	var known []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			known = append(known, u.Directories...)
		}
	}
	var modules []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == "go.mod" {
			modules = append(modules, strings.TrimSuffix("/"+strings.TrimPrefix(filepath.Dir(path), "."), "/."))
		}
		return err
	}))
	assert.ElementsMatch(t, modules, known, "directories of gomod in dependabot.yml")
}
