// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// TestTheFeaturelessNodeIsTheAgentOfParts plays schedules without failures on the reference node without its features
// and on the agent of parts. Both start the same containers at the same times and publish the same statuses. Events of
// the same instant have no order, so that two runs of an agent can differ: the journals of the two agents have to agree
// in a single pair of several runs.
func TestTheFeaturelessNodeIsTheAgentOfParts(t *testing.T) {
	const runs = 40
	featureless := withoutFeatures("declared", "deadline", "images", "resize", "gate", "restart-memory", "mirrors")
	for i := range casetest.Rounds[uint64](20) {
		seed := 3 * i // peaceful
		var nodes, parts []string
		for len(nodes) < runs {
			nodes = append(nodes, storyOf(t, featureless, seed))
			parts = append(parts, storyOf(t, newPartsAgent, seed))
			if slices.ContainsFunc(nodes, func(s string) bool { return slices.Contains(parts, s) }) {
				break
			}
		}
		if len(nodes) == runs {
			require.Equal(t, nodes[0], parts[0], "seed %d: no two of %d journals agree", seed, runs)
		}
	}
}

// storyOf returns the lines of a journal about containers and statuses, without the IDs of containers. Of the statuses
// of a pod at the same instant, the last counts.
func storyOf(t *testing.T, agent nodetest.Assemble, seed uint64) string {
	played := play(t, agent, nodetest.Schedule(seed, everyFeature...))
	require.NoError(t, played.Err)
	var story []string
	statuses := map[string]string{} // by instant and pod
	for line := range strings.Lines(played.Journal) {
		switch line = instanceIDs.ReplaceAllString(line, ""); {
		case containerLines.MatchString(line):
			story = append(story, line)
		case statusLines.MatchString(line):
			statuses[statusLines.FindString(line)] = line
		}
	}
	for _, line := range statuses {
		story = append(story, line)
	}
	slices.Sort(story)
	return strings.Join(story, "")
}

var (
	instanceIDs    = regexp.MustCompile(` (container|sandbox)-\d+`)
	containerLines = regexp.MustCompile(`^ *[\d.]+s   (RunSandbox|CreateContainer|StartContainer|exited) `)
	statusLines    = regexp.MustCompile(`^ *[\d.]+s   status of [^:]+`)
)
