// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	const deadline = 5 * time.Minute
	passed := func(hash string) Health { return Health{Hash: hash, Passed: true} }
	failed := func(hash string) Health { return Health{Hash: hash, Failed: "Restarted", Message: "1 restart"} }
	proving := Record{Phase: Proving, Good: "a", Next: "b", Boot: "1"}
	late := proving
	late.until = start
	bad := Record{Phase: Steady, Good: "a", Bad: []Bad{{Hash: "b"}}}
	for name, c := range map[string]struct {
		r    Record
		f    Facts
		want string // the phase, good and next, then the actions
	}{
		"nothing is known":                    {Record{}, Facts{}, ` - -`},
		"the first version":                   {Record{}, Facts{Listed: true, Desired: "a"}, `Proving - a: run "a"`},
		"the first version passes":            {Record{Phase: Proving, Next: "a"}, Facts{Listed: true, Desired: "a", Health: passed("a")}, `Steady a -: run "a", emit UpdateSucceeded`},
		"the first version fails":             {Record{Phase: Proving, Next: "a"}, Facts{Listed: true, Desired: "a", Health: failed("a")}, `Degraded - a: run "a", emit UpdateFailed`},
		"the first version is corrected":      {Record{Phase: Degraded, Next: "a"}, Facts{Listed: true, Desired: "b"}, `Proving - b: run "b"`},
		"the first version recovers":          {Record{Phase: Degraded, Next: "a"}, Facts{Listed: true, Desired: "a", Health: passed("a")}, `Steady a -: run "a", emit UpdateSucceeded`},
		"the source has not yet spoken":       {Record{Phase: Steady, Good: "a"}, Facts{Started: true}, `Steady a -: run "a"`},
		"a reason of the earlier agent":       {Record{Phase: Steady, Good: "a", Reason: "x"}, Facts{Started: true}, `Steady a -: run "a"`},
		"nothing changes":                     {Record{Phase: Steady, Good: "a"}, Facts{Listed: true, Desired: "a"}, `Steady a -: run "a"`},
		"a new version":                       {Record{Phase: Steady, Good: "a"}, Facts{Listed: true, Desired: "b"}, `Staging a b: run "a", emit UpdateStaging, stage "b"`},
		"a version that failed before":        {bad, Facts{Listed: true, Desired: "b"}, `Steady a -: run "a"`},
		"a newer version while one is staged": {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "c"}, `Staging a c: run "a", emit UpdateStaging, stage "c"`},
		"back to good while staging":          {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "a"}, `Steady a -: run "a"`},
		"staging goes on":                     {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b"}, `Staging a b: run "a", stage "b"`},
		"progress of another staging":         {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Stage: Stage{Hash: "c", Done: true}}, `Staging a b: run "a", stage "b"`},
		"the link is lost":                    {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Stage: Stage{Hash: "b", Blocked: "no route"}}, `Staging a b: run "a", emit UpdateBlocked, stage "b"`},
		"a version that is refused":           {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Stage: Stage{Hash: "b", Refused: "spec.x"}}, `Steady a -: run "a", emit UpdateRefused`},
		"everything is present":               {Record{Phase: Staging, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Stage: Stage{Hash: "b", Done: true}}, `Staged a b: run "a"`},
		"the switch":                          {Record{Phase: Staged, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b"}, `Proving a b: run "b", emit UpdateStarted`},
		"the switch is held":                  {Record{Phase: Staged, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Hold: true}, `Staged a b: run "a", emit UpdateHeld`},
		"the group may still change":          {Record{Phase: Staged, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", NotBefore: start.Add(1)}, `Staged a b: run "a", wait`},
		"an agent starts with a staged one":   {Record{Phase: Staged, Good: "a", Next: "b"}, Facts{Started: true}, `Staging a b: run "a", stage "b"`},
		"proving":                             {proving, Facts{Listed: true, Desired: "b"}, `Proving a b: run "b", wait`},
		"health of the version before":        {proving, Facts{Listed: true, Desired: "b", Health: passed("a")}, `Proving a b: run "b", wait`},
		"a newer version waits":               {proving, Facts{Listed: true, Desired: "c"}, `Proving a b: run "b", wait`},
		"the gate is passed":                  {proving, Facts{Listed: true, Desired: "b", Health: passed("b")}, `Steady b -: run "b", emit UpdateSucceeded`},
		"passed at the deadline":              {late, Facts{Listed: true, Desired: "b", Health: passed("b")}, `Steady b -: run "b", emit UpdateSucceeded`},
		"the gate fails":                      {proving, Facts{Listed: true, Desired: "b", Health: failed("b")}, `RollingBack a b: run "a", emit UpdateFailed, emit RollbackStarted`},
		"the deadline":                        {late, Facts{Listed: true, Desired: "b"}, `RollingBack a b: run "a", wait, emit UpdateFailed, emit RollbackStarted`},
		"the manifest is reverted":            {proving, Facts{Listed: true, Desired: "a"}, `RollingBack a b: run "a", emit RollbackStarted`},
		"an agent starts, no boot":            {proving, Facts{Started: true, Boot: "1"}, `Proving a b: run "b", wait`},
		"a boot":                              {proving, Facts{Started: true, Boot: "2"}, `RollingBack a b: run "a", emit UpdateFailed, emit RollbackStarted, wait`},
		"a boot of the first version":         {Record{Phase: Proving, Next: "b", Boot: "1"}, Facts{Started: true, Boot: "2"}, `Proving - b: run "b", wait`},
		"too many starts":                     {Record{Phase: Proving, Good: "a", Next: "b", Restarts: 2}, Facts{Started: true}, `RollingBack a b: run "a", emit UpdateFailed, emit RollbackStarted, wait`},
		"rolled back":                         {Record{Phase: RollingBack, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Health: passed("a")}, `Steady a -: run "a", emit RolledBack`},
		"the old version fails as well":       {Record{Phase: RollingBack, Good: "a", Next: "b"}, Facts{Listed: true, Desired: "b", Health: failed("a")}, `Degraded a b: run "a", emit RollbackFailed`},
		"degraded":                            {Record{Phase: Degraded, Good: "a", Next: "b", Bad: []Bad{{Hash: "b"}}}, Facts{Listed: true, Desired: "b", Health: failed("a")}, `Degraded a b: run "a"`},
		"degraded, corrected":                 {Record{Phase: Degraded, Good: "a", Next: "b", Bad: []Bad{{Hash: "b"}}}, Facts{Listed: true, Desired: "c"}, `Staging a c: run "a", emit UpdateStaging, stage "c"`},
		"degraded, recovers":                  {Record{Phase: Degraded, Good: "a", Next: "b", Bad: []Bad{{Hash: "b"}}}, Facts{Listed: true, Desired: "b", Health: passed("a")}, `Steady a -: run "a", emit RolledBack`},
		"a person picks an earlier version":   {Record{Phase: Steady, Good: "b"}, Facts{Listed: true, Desired: "b", Pick: "a"}, `Staging b a: run "b", emit UpdateStaging, stage "a"`},
		"a person picks a bad version":        {bad, Facts{Listed: true, Desired: "b", Pick: "b"}, `Staging a b: run "a", emit UpdateStaging, stage "b"`},
		"a person picks the good version":     {proving, Facts{Listed: true, Desired: "b", Pick: "a"}, `RollingBack a b: run "a", emit RollbackStarted`},
		"a picked version stays":              {Record{Phase: Steady, Good: "a", Pick: "a", Over: "b"}, Facts{Listed: true, Desired: "b"}, `Steady a -: run "a"`},
		"a picked version, another manifest":  {Record{Phase: Steady, Good: "a", Pick: "a", Over: "b"}, Facts{Listed: true, Desired: "c"}, `Staging a c: run "a", emit UpdateStaging, stage "c"`},
		"refused, with the next agent":        {Record{Phase: Steady, Good: "a", Bad: []Bad{{Hash: "b", Refused: true}}}, Facts{Started: true, Listed: true, Desired: "b"}, `Staging a b: run "a", emit UpdateStaging, stage "b"`},
		"the manifest is removed":             {proving, Facts{Listed: true}, ` - -: run "", forget`},
	} {
		t.Run(name, func(t *testing.T) {
			c.f.Deadline = deadline
			r, actions := Decide(c.r, c.f, start)
			if !c.f.Listed {
				assert.True(t, r.Reason != "" || c.r.Reason == "", "the reason stays")
			}
			got := string(r.Phase) + " " + orDash(r.Good) + " " + orDash(r.Next)
			var texts []string
			for _, a := range actions {
				texts = append(texts, a.String())
			}
			if len(texts) > 0 {
				got += ": " + strings.Join(texts, ", ")
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func orDash(hash string) string {
	if hash == "" {
		return "-"
	}
	return hash
}
