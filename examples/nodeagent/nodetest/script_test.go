// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

func TestScripts(t *testing.T) { nodetest.RunScripts(t, "testdata/*.txt") }

func TestParseScriptTellsEveryLineThatIsWrong(t *testing.T) {
	_, err := nodetest.ParseScript("a.txt", []byte("sleep 1s\nslep 1s # a comment\n\napply web main=c,c\nsleep -1s\nexpect running web 1\nsay 'open\n? \n"))
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{`a.txt:2: there is no command "slep"`, "a.txt:4: apply", "a.txt:5: sleep", "a.txt:6: expect", "a.txt:7: a quote is not closed", `a.txt:8: "?" stands alone`} {
		require.Contains(t, strings.Join(lines, "\n"), want, i)
	}
}

// The expected outcome of a command is checked in both directions.
func TestScriptsFailWhereTheyShould(t *testing.T) {
	for text, want := range map[string]string{
		"apply web\nexpect phase web Failed": "s:2: expect phase web Failed: phase is Running, not Failed",
		"apply web\n! expect running web/c":  "s:2: ! expect running web/c: it worked, and should not have",
		"within 1s expect api web Running":   "the pod on the API server is gone, not Running",
		"exit web/c 1":                       "not found",
		"apply none.yaml":                    "the script has no file none.yaml",
		"sleep 1s\nnode":                     "node has to be the first command",
		"apply web restart=Never\nfault lie op=PodStatus lie=omit\nagent restart\nsleep 5s": "container",
	} {
		script, err := nodetest.ParseScript("s", []byte(text))
		require.NoError(t, err)
		r := nodetest.Play(t, script)
		require.ErrorContains(t, r.Err, want, text)
		require.NotEmpty(t, r.Journal)
	}
}

func TestSchedulesAreTheSameForASeed(t *testing.T) {
	one := nodetest.Schedule(7)
	require.Equal(t, one.String(), nodetest.Schedule(7).String())
	require.NotEqual(t, one.String(), nodetest.Schedule(8).String())
	for seed := range uint64(300) { // generated scripts can be written and parsed
		script := nodetest.Schedule(seed)
		again, err := nodetest.ParseScript("x", []byte(script.String()))
		require.NoError(t, err, seed)
		require.Equal(t, script.String(), again.String())
	}
}

func TestShrinkLeavesWhatIsNeeded(t *testing.T) {
	script := nodetest.Schedule(3)
	needed := func(s *nodetest.Script) bool {
		return strings.Contains(s.String(), "calm") && strings.Contains(s.String(), "apply")
	}
	if !needed(script) {
		t.Skip("the seed has another script now")
	}
	small := nodetest.Shrink(script, needed)
	require.Len(t, small.Lines, 2)
	require.True(t, needed(small))
}

func FuzzParseScript(f *testing.F) {
	f.Add("node latency=1s\napply web init=i # comment\n? exit web/c 1\n-- a.yaml --\nkind: Pod\n")
	f.Add("behave 'a b'/c exit=5s,code=1 then serve\n! expect journal 'it''s'")
	f.Add(nodetest.Schedule(1).String())
	f.Fuzz(func(t *testing.T, text string) {
		script, err := nodetest.ParseScript("x", []byte(text))
		if err != nil {
			return
		}
		again, err := nodetest.ParseScript("x", []byte(script.String()))
		require.NoError(t, err)
		require.Equal(t, script.String(), again.String())
	})
}
