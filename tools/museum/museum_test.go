// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryTestHasAPatchOrAReason is what make extra checks of the whole museum: what is
// there fits together, and every patch still applies. make museum runs the tests.
func TestEveryTestHasAPatchOrAReason(t *testing.T) {
	at, err := filepath.Abs(root)
	must(t, err)
	m, err := open(at, withoutText)
	must(t, err)
	for _, wrong := range m.wrong {
		t.Error(wrong)
	}
	if len(m.exhibits) < 60 {
		t.Errorf("%d tests have a patch", len(m.exhibits))
	}
	for _, n := range m.exhibits {
		if _, err := apply(at, t.TempDir(), n); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}

// TestAQuickOne puts in a fault of the real repository.
func TestAQuickOne(t *testing.T) {
	at, err := filepath.Abs(root)
	must(t, err)
	must(t, tryOne(at, name{"podworkers", "TestUpstream66574StuckTerminatingPodSaysWhy"}))
}

const (
	source = "package p\n\nfunc Limit(n int) int {\n\tif n > 10 {\n\t\treturn 10\n\t}\n\treturn n\n}\n"
	test   = "package p\n\nimport \"testing\"\n\nfunc TestUpstream1Limit(t *testing.T) {\n\tif Limit(11) != 10 {\n\t\tt.Fail()\n\t}\n}\n\n" +
		"func TestUpstream2Skipped(t *testing.T) { t.Skip() }\n"
	head  = "The limit is not kept.\n\ndiff --git a/p/p.go b/p/p.go\n--- a/p/p.go\n+++ b/p/p.go\n"
	fault = head + "@@ -4,3 +4,3 @@\n \tif n > 10 {\n-\t\treturn 10\n+\t\treturn n\n \t}\n"
)

// house makes a repository with one package, and patches of its tests.
func house(t *testing.T, patches map[string]string) string {
	t.Helper()
	at := t.TempDir()
	files := map[string]string{"go.mod": "module example.com/house\n\ngo 1.26\n", "p/p.go": source, "p/p_test.go": test}
	for name, text := range patches {
		files["p/testdata/museum/"+name+".patch"] = text
	}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Join(at, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o644))
	}
	t.Setenv("GOWORK", "off")
	return at
}

func TestTryOne(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  error
	}{
		"the fault":        {fault, nil},
		"a shifted file":   {strings.Replace(fault, "@@ -4,3 +4,3 @@", "@@ -40,3 +40,3 @@", 1), nil},
		"no fault":         {strings.Replace(fault, "+\t\treturn n\n", "+\t\treturn 5 + 5\n", 1), errGreen},
		"nonsense":         {strings.Replace(fault, "+\t\treturn n\n", "+\t\treturn nonsense\n", 1), errCompile},
		"the code changed": {strings.Replace(fault, "-\t\treturn 10\n", "-\t\treturn 100\n", 1), errApply},
		"another file":     {strings.ReplaceAll(fault, "p/p.go", "p/gone.go"), errApply},
		"empty":            {"", errNoFiles},
	} {
		t.Run(name, func(t *testing.T) {
			at := house(t, map[string]string{"TestUpstream1Limit": c.patch})
			if err := tryOne(at, inHouse("TestUpstream1Limit")); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("want %v, got %v", c.want, err)
			}
			left, err := os.ReadFile(filepath.Join(at, "p/p.go"))
			must(t, err)
			if string(left) != source {
				t.Error("the file of the repository was written")
			}
		})
	}
}

func inHouse(test string) name { return name{"p", test} }

func TestVisit(t *testing.T) {
	at := house(t, map[string]string{"TestUpstream1Limit": fault, "TestUpstream2Skipped": fault})
	if err := visit(at, regexp.MustCompile(""), 2); err == nil || !strings.Contains(err.Error(), "entries are wrong") {
		t.Errorf("without.txt is about another repository: %v", err)
	}
	m, err := open(at, "")
	must(t, err)
	results := m.try(at, regexp.MustCompile("Upstream"), 2)
	if len(results) != 2 || results[0].err != nil || !errors.Is(results[1].err, errSkipped) {
		t.Errorf("%v", results)
	}
	if results := m.try(at, regexp.MustCompile("Upstream1"), 2); len(results) != 1 {
		t.Errorf("%v", results)
	}
}

func TestWhatDoesNotFit(t *testing.T) {
	at := house(t, map[string]string{"TestUpstream1Limit": fault, "TestUpstream9Gone": fault})
	for without, want := range map[string]string{
		"": "p TestUpstream2Skipped has neither",
		"p TestUpstream2Skipped: a reason\np TestUpstream1Limit: another":   "p TestUpstream1Limit has a patch, and stands in",
		"p TestUpstream2Skipped: a reason\np TestUpstream3Unknown: another": "p TestUpstream3Unknown stands in",
		"p TestUpstream2Skipped: a reason":                                  "p TestUpstream9Gone has a patch, and there is no such test",
	} {
		m, err := open(at, without)
		must(t, err)
		if !strings.Contains(strings.Join(m.wrong, "\n"), want) {
			t.Errorf("no %q in %q", want, m.wrong)
		}
	}
	for _, bad := range []string{"p TestUpstream1Limit", "p: reason", "p TestX: r\np TestX: r", "p TestX: "} {
		if _, err := parseWithout(bad); err == nil {
			t.Errorf("%q is wrong", bad)
		}
	}
}
