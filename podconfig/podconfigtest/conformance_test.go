// SPDX-License-Identifier: Apache-2.0

package podconfigtest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podconfigtest"
)

// fault is a fault of a naive Merger.
type fault string

const (
	none             fault = ""
	duplicateNames   fault = "takes two pods of one name in one change"
	duplicateUIDs    fault = "takes two pods of one UID in one change"
	lastWins         fault = "turns the order of a change round"
	renamesUnnoticed fault = "does not notice that a UID has another name"
	namesakes        fault = "keeps two pods of one name"
	keepsInput       fault = "keeps the caller's spec"
	editsInput       fault = "keeps and edits the caller's pods"
	shortTime        fault = "tells the first-seen time without a fraction"
	newFirstSeen     fault = "sees a pod for the first time with every change"
	foreignSource    fault = "believes the source annotation that came"
	forgetsMirror    fault = "does not keep the mirror annotation"
	hashIsLocal      fault = "takes the hash for a local annotation"
	rawEquality      fault = "compares with reflect.DeepEqual"
	graceIgnored     fault = "does not look at the grace period"
	noDelete         fault = "calls a DELETE an UPDATE"
	noReconcile      fault = "does not tell statuses"
	staleMetadata    fault = "does not store what it does not tell"
	removeLast       fault = "tells removals last"
	noEmptyAdd       fault = "has no empty ADD"
	deltasMakeReady  fault = "takes a delta for a snapshot"
	syncedEarly      fault = "marks the first update"
	neverSynced      fault = "marks none"
	sharesOutput     fault = "gives away its own pods"
	noErrors         fault = "accepts everything"
)

var faults = []fault{duplicateNames, duplicateUIDs, lastWins, renamesUnnoticed, namesakes, keepsInput, editsInput, shortTime, newFirstSeen, foreignSource,
	forgetsMirror, hashIsLocal, rawEquality, graceIgnored, noDelete, noReconcile, staleMetadata, removeLast, noEmptyAdd, deltasMakeReady,
	syncedEarly, neverSynced, sharesOutput, noErrors}

func rawEqual(a, b any) bool { return reflect.DeepEqual(a, b) }

// TestNaiveConforms shows that the suite accepts a second Merger.
func TestNaiveConforms(t *testing.T) {
	podconfigtest.Run(t, func(testing.TB) podconfig.Merger { return newNaive(none) })
}

// TestEveryFaultIsFound shows that the suite detects faults.
func TestEveryFaultIsFound(t *testing.T) {
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			var found []string
			for _, c := range podconfigtest.Cases() {
				if err := c.Check(t.Context(), newNaive(f)); err != nil {
					require.NotContains(t, err.Error(), "\n")
					found = append(found, fmt.Sprintf("%s: %v", c.Name, err))
				}
			}
			require.NotEmpty(t, found)
			t.Log(len(found), found[0])
		})
	}
}

func TestNamesAreUniqueAndCasesFresh(t *testing.T) {
	names := map[string]bool{}
	first, second := podconfigtest.Cases(), podconfigtest.Cases()
	for i, c := range first {
		name := c.Fault + "/" + c.Name
		assert.False(t, names[name], name)
		names[name] = true
		assert.NotEmpty(t, c.Steps, name)
		assert.False(t, strings.ContainsAny(c.Fault, " -"), name)
		for j, s := range c.Steps {
			for k, p := range s.Change.Pods() {
				assert.True(t, p == nil || p != second[i].Steps[j].Change.Pods()[k], "every call makes pods of its own")
			}
		}
	}
	assert.Greater(t, len(first), 70)
}

func TestBrief(t *testing.T) {
	assert.Empty(t, podconfigtest.Brief(nil))
	assert.Equal(t, "REMOVE[a/1] ADD[b/2 nil]+", podconfigtest.Brief([]podconfig.Update{
		{Op: podconfig.OpRemove, Pods: append(podconfig.Snapshot(podconfigtest.Pod("a", "1")).Pods(), nil)[:1]},
		{Op: podconfig.OpAdd, Pods: append(podconfig.Snapshot(podconfigtest.Pod("b", "2")).Pods(), nil), Synced: true},
	}))
}
