// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is a small module: part p, its user u, tests and a document.
var module = map[string]string{
	"go.mod": "module example.invalid/m\n\ngo 1.26\n",
	"p/p.go": `package p

type Options struct{ Literal, Assigned, Address, Document, Example, Test, Own, Never int }

type Result struct{ Kind Kind }

type Kind int

const KindA Kind = 1

type Doer interface{ Do() }

type Thing struct{}

func (*Thing) Do() {}

func (*Thing) Idle() {}

func New(o Options) *Result { o.Own = 1; return nil }

func OnlyHere() {}

func OnlyTests() {}

var _ = OnlyHere
`,
	"p/p_test.go":       "package p_test\n\nimport \"example.invalid/m/p\"\n\nvar _ = p.Options{Test: 1}\n\nvar _ = p.OnlyTests\n",
	"p/example_test.go": "package p_test\n\nimport \"example.invalid/m/p\"\n\nfunc Example() { _ = p.Options{Example: 1} }\n",
	"u/u.go": `package u

import "example.invalid/m/p"

func f(_ p.Doer, _ *p.Thing) {
	o := p.Options{Literal: 1}
	o.Assigned = 2
	g(&o.Address)
	p.New(o)
}

func g(*int) {}
`,
	"ptest/k.go":       "package ptest\n\ntype Options struct{ ByTest int }\n",
	"u/u_test.go":      "package u\n\nimport \"example.invalid/m/ptest\"\n\nvar _ = ptest.Options{ByTest: 1}\n",
	"internal/x/x.go":  "package x\n\ntype Options struct{ Internal int }\n",
	"docs/use.md":      "Set it:\n\n```go\nx := p.Options{Document: 3}\n```\n\nNever: is text.\n",
	"cmd/prog/main.go": "package main\n\ntype Options struct{ Main int }\n\nfunc main() {}\n",
}

// TestMeasure measures the small module.
func TestMeasure(t *testing.T) {
	root := t.TempDir()
	for path, content := range module {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	s, err := measure(root)
	if err != nil {
		t.Fatal(err)
	}
	var unset, idle []string
	for _, n := range s.names {
		mark := map[reach]string{unused: "", tests: "*"}
		if n.option && n.set != product {
			unset = append(unset, n.id+mark[n.set])
		}
		if !n.field && n.used != product {
			idle = append(idle, n.id+mark[n.used])
		}
	}
	slices.Sort(unset)
	slices.Sort(idle)
	if got, want := strings.Join(unset, " "), "Options.Never Options.Own Options.Test*"; got != want {
		t.Errorf("unset options: %s, want %s", got, want)
	}
	if got, want := strings.Join(idle, " "), "OnlyHere OnlyTests* Thing.Idle"; got != want {
		t.Errorf("unused names: %s, want %s", got, want)
	}
	if got := s.unsetShare(); got != 100.0*3/9 {
		t.Errorf("share of unset options: %v, want 3 of 9", got)
	}
}

// TestMeasureBroken refuses to measure what does not compile: names would be
// missing.
func TestMeasureBroken(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{"go.mod": "module example.invalid/m\n\ngo 1.26\n", "p.go": "package p\n\nvar X = Y\n"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	if _, err := measure(root); err == nil || !strings.Contains(err.Error(), "Y") {
		t.Errorf("measure of a package that does not compile: %v", err)
	}
}
