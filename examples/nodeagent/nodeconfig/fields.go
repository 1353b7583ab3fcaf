// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed fields.txt
var table string

// field is a line of fields.txt.
type field struct {
	path    string
	kind    string // kind of the value in Go, such as "duration"
	pointer bool   // a zero value counts as a value
	rule    rule
	flag    string   // name of the flag, for rules with a flag
	unset   string   // value of the flag if the file has none; empty: the flag's own default
	allowed []string // for ruleOnly
	reason  string   // for ruleIgnore
}

// rule determines the use of a field's value.
type rule string

const (
	ruleFlag       rule = "flag"
	rulePath       rule = "path"       // like ruleFlag; relative paths count from the file's folder
	ruleHeaders    rule = "headers"    // like ruleFlag, name:value,…
	ruleTaints     rule = "taints"     // like ruleFlag, key=value:effect,…
	rulePriorities rule = "priorities" // like ruleFlag, priority=seconds,…
	ruleThresholds rule = "thresholds" // like ruleFlag, signal<value,…
	ruleOnly       rule = "only"
	ruleIgnore     rule = "ignore"
)

// fields returns the fields of the table in its order. A test checks the table.
func fields() []field {
	var all []field
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 2 && words[0] != "#" {
			all = append(all, parseField(words))
		}
	}
	return all
}

func parseField(words []string) field {
	f := field{path: words[0], rule: rule(words[2])}
	f.kind, f.pointer = strings.CutPrefix(words[1], "*")
	if f.rule == ruleIgnore {
		f.reason = strings.Join(words[3:], " ")
		return f
	}
	for _, word := range words[3:] {
		unset, isUnset := strings.CutPrefix(word, "unset=")
		switch {
		case isUnset:
			f.unset = unset
		case f.rule == ruleOnly:
			f.allowed = strings.Split(word, "|")
		default:
			f.flag = word
		}
	}
	return f
}

// FieldError is an error about a value that the agent cannot honour.
type FieldError struct {
	File  string
	Line  int
	Field string // path, such as authentication.anonymous.enabled; empty: the whole file
	Why   string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Field, e.Why)
}
